#include <algorithm>
#include <array>

#include "api/custom_tools.h"
#include "api/fields.h"
#include "api/request.h"
#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;
constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

std::unexpected<Error> bad(std::size_t index, std::string_view what) {
  return invalid("messages", concat("messages[", index, "]", what));
}

/// Text parts joined by line breaks. Parts of another kind are refused: the model takes text.
Result<std::string> read_parts(const json::Array& parts, std::size_t index) {
  if (parts.empty()) return bad(index, ".content must not be an empty array");
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const V* type = parts[i].find("type");
    if (type == nullptr || !type->is_string())
      return bad(index, concat(".content[", i, "] must be an object with a type"));
    const bool refusal = type->as_string() == "refusal";
    if (type->as_string() != "text" && !refusal)
      return bad(index,
                 concat(".content[", i, "] has the type ", shown(*type), ", but this model takes only text"));
    const V* part = parts[i].find(refusal ? "refusal" : "text");
    if (part == nullptr || !part->is_string())
      return bad(index, concat(".content[", i, "].", type->as_string(), " must be a string"));
    if (i > 0) text += '\n';
    text += part->as_string();
  }
  return text;
}

/// A call of a custom tool, as the call of a function that it is for the model.
Result<V> read_custom_call(const V& call, std::size_t index) {
  const V* custom = call.find("custom");
  const V* name = custom != nullptr ? custom->find("name") : nullptr;
  const V* input = custom != nullptr ? custom->find("input") : nullptr;
  if (name == nullptr || !name->is_string() || input == nullptr || !input->is_string())
    return bad(index, ".tool_calls needs custom.name and custom.input in each call of a custom tool");
  json::Object out;
  if (const V* id = call.find("id")) out.append("id", *id);
  out.append("type", "function");
  out.append("function", json::Object{{"name", *name}, {"arguments", custom_arguments(input->as_string())}});
  return V(std::move(out));
}

/// Templates expect the arguments of a call as an object; clients send them as JSON text. Text that is none, as a
/// model may have written it, stays text.
Result<V> read_tool_calls(const V& calls, std::size_t index) {
  if (!calls.is_array()) return bad(index, ".tool_calls must be an array");
  json::Array out;
  for (const V& call : calls.as_array()) {
    if (const V* type = call.find("type"); type != nullptr && *type == V("custom")) {
      MET_ASSIGN(V read, read_custom_call(call, index));
      out.push_back(std::move(read));
      continue;
    }
    const V* function = call.find("function");
    const V* name = function != nullptr ? function->find("name") : nullptr;
    if (name == nullptr || !name->is_string())
      return bad(index, ".tool_calls needs function.name in each call");
    V copy = call;
    if (V* inner = copy.as_object().find("function"); inner->find("arguments") != nullptr) {
      V* arguments = inner->as_object().find("arguments");
      if (arguments->is_string()) {
        const std::string& text = arguments->as_string();
        Result<V> parsed = json::parse(text.empty() ? "{}" : text);
        if (parsed && parsed->is_object()) *arguments = std::move(*parsed);
      }
    }
    out.push_back(std::move(copy));
  }
  return V(std::move(out));
}

/// The form before tools: a `function_call` is a call, and a `function` message answers the call before it. Its id
/// follows from its place.
void modernize(json::Object& message, std::size_t index) {
  const V* call = message.find("function_call");
  if (call != nullptr && !call->is_null() && message.find("tool_calls") == nullptr) {
    json::Object tool_call{{"id", concat("call_", index)}, {"type", "function"}, {"function", *call}};
    message.append("tool_calls", json::Array{V(std::move(tool_call))});
  }
  message.erase("function_call");
  if (*message.find("role") != V("function")) return;
  message.set("role", "tool");
  message.set("tool_call_id", concat("call_", index - 1));
}

/// What an assistant's message says where it has no content: its refusal.
void say_refusal(json::Object& message) {
  const V* refusal = message.find("refusal");
  const V* content = message.find("content");
  const bool silent = content == nullptr || content->is_null();
  if (silent && refusal != nullptr && refusal->is_string()) message.set("content", *refusal);
  message.erase("refusal");
}

Result<V> read_message(const V& message, std::size_t index) {
  if (!message.is_object()) return bad(index, concat(" must be an object, got ", shown(message)));
  const V* role = message.find("role");
  if (role == nullptr || !role->is_string()) return bad(index, ".role must be a string");
  if (std::find(kRoles.begin(), kRoles.end(), role->as_string()) == kRoles.end())
    return bad(index, concat(".role must be system, developer, user, assistant or tool, got ", shown(*role)));
  for (const std::string_view key : {"name", "tool_call_id"}) {
    const V* v = message.find(key);
    const bool wrong = v != nullptr && !v->is_string() && !(v->is_null() && key == "name");
    if (wrong) return bad(index, concat(".", key, " must be a string, got ", shown(*v)));
  }
  if (role->as_string() == "tool" && message.find("tool_call_id") == nullptr)
    return bad(index, ".tool_call_id is missing");
  json::Object out = message.as_object();
  if (role->as_string() == "developer") out.set("role", "system");
  if (const V* audio = message.find("audio"); audio != nullptr && !audio->is_null())
    return bad(index, ".audio is not supported: this model takes only text");
  if (role->as_string() == "function" && index == 0) return bad(index, " answers no call");
  out.erase("audio");
  modernize(out, index);
  say_refusal(out);
  const V* calls = out.find("tool_calls");
  const bool has_calls = calls != nullptr && !calls->is_null();
  if (has_calls) {
    MET_ASSIGN(V read, read_tool_calls(*calls, index));
    if (read.as_array().empty()) {
      out.erase("tool_calls");
    } else {
      out.set("tool_calls", std::move(read));
    }
  }
  const V* content = out.find("content");
  if (content == nullptr || content->is_null()) {
    if (role->as_string() != "assistant") return bad(index, ".content is missing");
    out.set("content", "");
  } else if (content->is_array()) {
    MET_ASSIGN(std::string text, read_parts(content->as_array(), index));
    out.set("content", std::move(text));
  } else if (!content->is_string()) {
    return bad(index, concat(".content must be a string or an array of parts, got ", shown(*content)));
  }
  return V(std::move(out));
}

}  // namespace

Result<json::Array> read_messages(const V& messages) {
  if (!messages.is_array())
    return invalid("messages", concat("messages must be an array, got ", shown(messages)));
  if (messages.as_array().empty()) return invalid("messages", "messages must not be empty");
  json::Array out;
  for (const V& message : messages.as_array()) {
    MET_ASSIGN(V read, read_message(message, out.size()));
    out.push_back(std::move(read));
  }
  return out;
}

Result<std::vector<TokenId>> read_ids(std::string_view field, const V& value, std::int64_t vocabulary) {
  if (!value.is_array())
    return invalid(std::string(field), concat(field, " must be an array of token ids, got ", shown(value)));
  std::vector<TokenId> ids;
  ids.reserve(value.as_array().size());
  for (const V& id : value.as_array()) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() >= vocabulary)
      return invalid(std::string(field),
                     concat(field, " must hold token ids from 0 to ", vocabulary - 1, ", got ", shown(id)));
    ids.push_back(static_cast<TokenId>(id.as_int()));
  }
  return ids;
}

Result<std::vector<PromptInput>> read_prompts(const V& prompt, const ParseContext& context) {
  std::vector<PromptInput> out;
  if (prompt.is_string()) {
    out.emplace_back(prompt.as_string());
    return out;
  }
  if (!prompt.is_array() || prompt.as_array().empty())
    return invalid(
        "prompt", "prompt must be a string, an array of strings, an array of token ids or an array of these");
  const json::Array& items = prompt.as_array();
  if (items[0].is_int() || items[0].is_double()) {
    MET_ASSIGN(std::vector<TokenId> ids, read_ids("prompt", prompt, context.vocabulary));
    out.emplace_back(std::move(ids));
    return out;
  }
  if (items.size() > static_cast<std::size_t>(context.prompts_max))
    return invalid("prompt",
                   concat("prompt must hold at most ", context.prompts_max, " prompts, got ", items.size()));
  for (const V& item : items) {
    if (item.is_string() != items[0].is_string())
      return invalid("prompt", "prompt must not mix strings and token ids");
    if (item.is_string()) {
      out.emplace_back(item.as_string());
      continue;
    }
    MET_ASSIGN(std::vector<TokenId> ids, read_ids("prompt", item, context.vocabulary));
    if (ids.empty()) return invalid("prompt", "prompt must not hold an empty array of token ids");
    out.emplace_back(std::move(ids));
  }
  return out;
}

}  // namespace met::api
