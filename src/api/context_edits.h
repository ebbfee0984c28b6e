// Anthropic's context_management: old reasoning and old results of tools leave the prompt when the request says so.
// Source: the public reference of context editing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "api/request.h"
#include "core/error.h"
#include "core/json.h"

namespace met::api {

/// An edit that changed the prompt.
struct AppliedEdit {
  ContextEdit::Kind kind = ContextEdit::Kind::kThinking;
  std::int64_t cleared = 0;  ///< turns, or uses
  std::int64_t tokens = 0;   ///< that the prompt lost
};

/// `context_management`. Errors: kInvalidArgument or kUnsupported, field "context_management".
Result<std::vector<ContextEdit>> read_context_edits(const json::Value& value);

struct EditedMessages {
  json::Array messages;
  std::int64_t cleared = 0;
};

/// The conversation, as `read_messages` gives it, without what the edit clears: reasoning of all but the last turns
/// that have some, or the results (and inputs) of all but the last uses of tools.
EditedMessages edited(const json::Array& messages, const ContextEdit& edit);

/// The uses of tools in a conversation.
std::int64_t tool_uses(const json::Array& messages);

/// {"applied_edits": […]}
json::Value applied_edits_json(std::span<const AppliedEdit> edits);

}  // namespace met::api
