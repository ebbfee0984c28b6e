// What front ends that lower their body to a chat body share.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "core/error.h"
#include "core/json.h"

namespace met::api {

/// A field of the front end, and the chat field that it became.
struct Renamed {
  std::string_view chat;
  std::string_view own;
};

/// The members of `body` that are not in `own`: sampling and other fields that mean the same in a chat. Chat's
/// fields that the front end does not have go to `ignored`.
json::Object passed_through(const json::Object& body, std::span<const std::string_view> own,
                            std::vector<std::string>& ignored);

/// A chat error as the client must read it: names its own field.
Error in_own_terms(Error error, std::span<const Renamed> names);

/// What is found out later about the answer's form names the client's field, too.
void name_form_in_own_terms(GenerationRequest& request, std::span<const Renamed> names);

/// The member, or nullptr when it is absent or null.
const json::Value* given(const json::Value& body, std::string_view name);

/// A member of that name that is a string. Errors: kInvalidArgument, field `field`, naming `place`.
Result<std::string> need_text(const json::Value& object, std::string_view name, std::string_view field,
                              std::string_view place);

/// {"type": "text", "text": text}, a part of a chat message.
json::Value text_part(std::string text);

}  // namespace met::api
