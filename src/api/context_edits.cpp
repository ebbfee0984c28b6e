#include "api/context_edits.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "api/fields.h"
#include "api/lower.h"
#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;
constexpr const char* kField = "context_management";
constexpr const char* kThinking = "clear_thinking_20251015";
constexpr const char* kToolUses = "clear_tool_uses_20250919";
constexpr const char* kCleared = "[cleared to save context]";
constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

/// {"type": one of `types`, "value"}: its value; `type` says which.
Result<std::int64_t> read_count(const V& value, std::string_view place, std::string_view types,
                                std::int64_t least, std::string& type) {
  MET_ASSIGN(type, need_text(value, "type", kField, place));
  if (concat("|", types, "|").find(concat("|", type, "|")) == std::string::npos)
    return invalid(kField, concat(place, ".type must be ", types, ", got ", shown(V(type))));
  if (type == "all") return kAll;
  const V* count = given(value, "value");
  if (count == nullptr || !count->is_int() || count->as_int() < least)
    return invalid(kField, concat(place, ".value must be an integer of at least ", least));
  return count->as_int();
}

Result<ContextEdit> read_thinking_edit(const V& edit, const std::string& place) {
  ContextEdit out{.kind = ContextEdit::Kind::kThinking, .keep = 1};
  const V* keep = given(edit, "keep");
  if (keep == nullptr) return out;
  std::string type;
  out.keep = kAll;
  if (*keep != V("all")) {
    MET_ASSIGN(out.keep, read_count(*keep, place + ".keep", "thinking_turns|all", 1, type));
  }
  return out;
}

Result<ContextEdit> read_tool_edit(const V& edit, const std::string& place) {
  ContextEdit out{.kind = ContextEdit::Kind::kToolUses, .keep = 3};
  std::string type;
  if (const V* keep = given(edit, "keep")) {
    MET_ASSIGN(out.keep, read_count(*keep, place + ".keep", "tool_uses", 0, type));
  }
  if (const V* trigger = given(edit, "trigger")) {
    MET_ASSIGN(out.trigger, read_count(*trigger, place + ".trigger", "input_tokens|tool_uses", 0, type));
    out.trigger_counts_uses = type == "tool_uses";
  }
  if (const V* least = given(edit, "clear_at_least")) {
    MET_ASSIGN(out.clear_at_least, read_count(*least, place + ".clear_at_least", "input_tokens", 0, type));
  }
  if (const V* exclude = given(edit, "exclude_tools")) {
    auto names = read_texts(kField, *exclude);
    if (!names) return invalid(kField, place + ".exclude_tools must be an array of texts");
    out.exclude = std::move(*names);
  }
  const V* inputs = given(edit, "clear_tool_inputs");
  if (inputs == nullptr) return out;
  if (inputs->is_bool()) {
    out.clear_inputs = inputs->as_bool();
    return out;
  }
  auto names = read_texts(kField, *inputs);
  if (!names) return invalid(kField, place + ".clear_tool_inputs must be true, false or an array of texts");
  out.clear_inputs_of = std::move(*names);
  return out;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Reasoning under each name that templates read.
bool drop_reasoning(V& message) {
  bool some = false;
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    const V* text = message.find(name);
    if (text == nullptr) continue;
    some |= text->is_string() && !text->as_string().empty();
    message.as_object().erase(name);
  }
  return some;
}

EditedMessages without_thinking(const json::Array& messages, std::int64_t keep) {
  EditedMessages out{.messages = messages};
  std::int64_t turns = 0;  // from the end, those with reasoning
  bool in_turn = false;
  for (std::size_t i = messages.size(); i-- > 0;) {
    const std::string& role = messages[i].find("role")->as_string();
    if (role == "user" || role == "system") in_turn = false;
    if (role != "assistant") continue;
    V edited = messages[i];
    if (!drop_reasoning(edited)) continue;
    if (!std::exchange(in_turn, true)) ++turns;
    if (turns <= keep) continue;
    out.messages[i] = std::move(edited);
    out.cleared = turns - keep;
  }
  return out;
}

std::string_view name_of(const V& call) { return call.find("function")->find("name")->as_string(); }

EditedMessages without_results(const json::Array& messages, const ContextEdit& edit) {
  EditedMessages out{.messages = messages};
  std::vector<std::string> cleared;  // ids of calls
  std::int64_t uses = 0;             // from the end
  for (std::size_t i = messages.size(); i-- > 0;) {
    V* calls = out.messages[i].as_object().find("tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (std::size_t c = calls->as_array().size(); c-- > 0;) {
      V& call = calls->as_array()[c];
      const std::string name(name_of(call));
      if (has(edit.exclude, name) || ++uses <= edit.keep) continue;
      if (const V* id = call.find("id"); id != nullptr && id->is_string()) cleared.push_back(id->as_string());
      if (edit.clear_inputs || has(edit.clear_inputs_of, name))
        call.as_object().find("function")->as_object().set("arguments", json::Object{});
      ++out.cleared;
    }
  }
  for (V& message : out.messages) {
    const V* id = message.find("tool_call_id");
    if (id != nullptr && id->is_string() && has(cleared, id->as_string()))
      message.as_object().set("content", kCleared);
  }
  return out;
}

}  // namespace

Result<std::vector<ContextEdit>> read_context_edits(const V& value) {
  if (!value.is_object()) return invalid(kField, concat(kField, " must be an object, got ", shown(value)));
  std::vector<ContextEdit> out;
  const V* edits = given(value, "edits");
  if (edits == nullptr) return out;
  if (!edits->is_array())
    return invalid(kField, concat(kField, ".edits must be an array, got ", shown(*edits)));
  for (std::size_t i = 0; i < edits->as_array().size(); ++i) {
    const std::string place = concat(kField, ".edits[", i, "]");
    const V& edit = edits->as_array()[i];
    MET_ASSIGN(const std::string type, need_text(edit, "type", kField, place));
    if (type != kThinking && type != kToolUses)
      return unsupported(kField, concat(place, " has the type ", shown(V(type)), ", which is not supported"));
    MET_ASSIGN(ContextEdit read,
               type == kThinking ? read_thinking_edit(edit, place) : read_tool_edit(edit, place));
    out.push_back(std::move(read));
  }
  return out;
}

EditedMessages edited(const json::Array& messages, const ContextEdit& edit) {
  return edit.kind == ContextEdit::Kind::kThinking ? without_thinking(messages, edit.keep)
                                                   : without_results(messages, edit);
}

std::int64_t tool_uses(const json::Array& messages) {
  std::int64_t uses = 0;
  for (const V& message : messages)
    if (const V* calls = message.find("tool_calls"); calls != nullptr && calls->is_array())
      uses += std::ssize(calls->as_array());
  return uses;
}

V applied_edits_json(std::span<const AppliedEdit> edits) {
  json::Array list;
  for (const AppliedEdit& edit : edits) {
    const bool thinking = edit.kind == ContextEdit::Kind::kThinking;
    json::Object one{{"type", thinking ? kThinking : kToolUses}};
    one.append(thinking ? "cleared_thinking_turns" : "cleared_tool_uses", edit.cleared);
    one.append("cleared_input_tokens", edit.tokens);
    list.emplace_back(std::move(one));
  }
  return json::Object{{"applied_edits", std::move(list)}};
}

}  // namespace met::api
