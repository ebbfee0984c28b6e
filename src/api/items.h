// Items of the Responses and Conversations APIs: messages, function calls and their outputs, reasoning.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace met::api {

/// An item as it is stored and shown; shared by every context that holds it.
using Item = std::shared_ptr<const json::Value>;

/// Items as clients send them, in one form: messages with typed parts, a status, no absent fields; an `id` only
/// where the client gave one. Errors name `field` and the place in it; what the model cannot take is named by
/// its type. `references`: {"type": "item_reference", "id"} stays as it is, for the caller to put the stored item in
/// its place; else it is refused.
Result<json::Array> read_items(const json::Value& items, std::string_view field, bool references = false);

/// The id that an item refers to; nullptr: it is an item itself.
const std::string* reference_of(const json::Value& item);

/// A user's message of one text, as `input` may be a string.
json::Value user_item(std::string text);

/// Prefix of the id that an item of this type gets: "msg_", "fc_", "rs_"….
std::string_view id_prefix(const json::Value& item);

/// What the model knows a function of a namespace as.
std::string grouped_name(std::string_view space, std::string_view name);

/// The chat messages that the items say. What an assistant thinks, says and calls in a row is one message.
/// Errors: an output whose call is missing.
Result<json::Array> chat_messages(std::span<const Item> items, std::string_view field);

/// At most 16 pairs of short texts. Errors name "metadata".
Result<json::Object> read_metadata(const json::Value& metadata);

}  // namespace met::api
