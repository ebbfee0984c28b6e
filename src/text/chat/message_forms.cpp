#include "text/chat/message_forms.h"

#include <algorithm>
#include <optional>
#include <string>

namespace met::text {

namespace {

json::Array without_nulls(const json::Array& messages) {
  json::Array out;
  for (const json::Value& message : messages) {
    json::Object kept;
    for (const auto& [key, value] : message.as_object())
      if (!value.is_null()) kept.append(key, value);
    out.emplace_back(std::move(kept));
  }
  return out;
}

/// The arguments of an assistant's tool calls as objects where they are the JSON text of one.
bool parse_arguments(json::Array& messages) {
  bool changed = false;
  for (json::Value& message : messages) {
    json::Value* calls = message.as_object().find("tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (json::Value& call : calls->as_array()) {
      json::Value* function = call.is_object() ? call.as_object().find("function") : nullptr;
      json::Value* arguments =
          function != nullptr && function->is_object() ? function->as_object().find("arguments") : nullptr;
      if (arguments == nullptr || !arguments->is_string()) continue;
      const std::string& text = arguments->as_string();
      auto parsed = json::parse(text.empty() ? std::string_view("{}") : std::string_view(text));
      if (!parsed || !parsed->is_object()) continue;
      *arguments = std::move(*parsed);
      changed = true;
    }
  }
  return changed;
}

/// Text of a content that is a string or a list of text parts; nullopt for anything else.
std::optional<std::string> text_of(const json::Value& content) {
  if (content.is_string()) return content.as_string();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  for (const json::Value& part : content.as_array()) {
    const json::Value* type = part.find("type");
    const json::Value* piece = part.find("text");
    const bool is_text = type != nullptr && type->is_string() &&
                         (type->as_string() == "text" || type->as_string() == "input_text" ||
                          type->as_string() == "output_text");
    if (!is_text || piece == nullptr || !piece->is_string()) return std::nullopt;
    text += piece->as_string();
  }
  return text;
}

bool flatten_parts(json::Array& messages) {
  bool changed = false;
  for (json::Value& message : messages) {
    json::Value* content = message.as_object().find("content");
    if (content == nullptr || !content->is_array()) continue;
    if (auto text = text_of(*content)) {
      *content = json::Value(std::move(*text));
      changed = true;
    }
  }
  return changed;
}

bool is_system(const json::Value& message) {
  const json::Value* role = message.find("role");
  return role != nullptr && role->is_string() &&
         (role->as_string() == "system" || role->as_string() == "developer");
}

/// All system and developer messages as one system message at the head, in their order. False when that is
/// what they already are, or when one of them is not text.
bool merge_systems(json::Array& messages) {
  std::string merged;
  std::size_t count = 0;
  for (const json::Value& message : messages) {
    if (!is_system(message)) continue;
    const json::Value* content = message.find("content");
    const auto text = content == nullptr ? std::optional<std::string>("") : text_of(*content);
    if (!text) return false;
    if (count++ != 0 && !merged.empty() && !text->empty()) merged += "\n\n";
    merged += *text;
  }
  const bool at_head =
      count == 1 && is_system(messages[0]) && messages[0].find("role")->as_string() == "system";
  if (count == 0 || at_head) return false;
  std::erase_if(messages, is_system);
  json::Object system{{"role", json::Value("system")}, {"content", json::Value(std::move(merged))}};
  messages.insert(messages.begin(), json::Value(std::move(system)));
  return true;
}

bool fill_contents(json::Array& messages) {
  bool changed = false;
  for (json::Value& message : messages) {
    if (message.find("content") != nullptr) continue;
    message.as_object().set("content", json::Value(""));
    changed = true;
  }
  return changed;
}

}  // namespace

void alias_reasoning(json::Array& messages) {
  for (json::Value& message : messages) {
    json::Object& fields = message.as_object();
    const json::Value* reasoning = nullptr;
    for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
      const json::Value* v = fields.find(name);
      if (reasoning == nullptr && v != nullptr && !v->is_null()) reasoning = v;
    }
    if (reasoning == nullptr) continue;
    const json::Value text = *reasoning;
    json::Object aliased{{"thinking", text}};
    for (auto& [key, value] : fields) aliased.set(key, std::move(value));
    aliased.set("reasoning_content", text);
    fields = std::move(aliased);
  }
}

std::vector<json::Array> message_forms(const json::Array& messages, bool takes_parts) {
  std::vector<json::Array> forms;
  json::Array base = without_nulls(messages);
  if (!takes_parts) flatten_parts(base);
  json::Array parsed = base;
  const bool has_arguments = parse_arguments(parsed);
  forms.push_back(std::move(parsed));
  if (has_arguments) forms.push_back(std::move(base));
  // Each adaptation is tried on every form so far.
  for (bool (*adapt)(json::Array&) : {&flatten_parts, &fill_contents, &merge_systems}) {
    const std::size_t before = forms.size();
    for (std::size_t i = 0; i < before; ++i) {
      json::Array adapted = forms[i];
      if (adapt(adapted)) forms.push_back(std::move(adapted));
    }
  }
  return forms;
}

}  // namespace met::text
