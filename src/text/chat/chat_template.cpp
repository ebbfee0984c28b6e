#include "text/chat/chat_template.h"

#include <algorithm>
#include <ranges>

#include "core/utf8.h"
#include "text/chat/embedded_templates.h"
#include "text/chat/message_forms.h"
#include "text/jinja/unicode.h"

namespace met::text {

namespace {

constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";

jinja::RenderError refuse(std::string message) {
  return {jinja::FailureKind::kRaised, std::move(message), 0, 0};
}

/// Keeps the first `size` bytes.
void cut(RenderedPrompt& prompt, std::size_t size) {
  prompt.text.resize(size);
  std::erase_if(prompt.untrusted, [&](const ByteRange& r) { return r.begin >= size; });
  if (!prompt.untrusted.empty()) prompt.untrusted.back().end = std::min(prompt.untrusted.back().end, size);
}

/// Python's str.strip and rstrip as byte positions.
std::size_t strip_end(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
    if (!jinja::is_space(utf8::decode(text.substr(begin, end - begin)).code_point)) break;
    end = begin;
  }
  return end;
}

std::string_view strip(std::string_view text) {
  while (!text.empty()) {
    const utf8::Decoded d = utf8::decode(text);
    if (!jinja::is_space(d.code_point)) break;
    text.remove_prefix(d.length);
  }
  return text.substr(0, strip_end(text));
}

/// Appends the tag to the text that the model goes on with; returns that text without the tag.
std::expected<std::string, jinja::RenderError> tag_final_message(json::Array& messages,
                                                                 const std::string& source) {
  if (messages.empty())
    return std::unexpected(refuse("continue_final_message is set but there are no messages"));
  json::Value* content = messages.back().as_object().find("content");
  if (content == nullptr || content->is_null())
    return std::unexpected(refuse("continue_final_message is set but the final message has no content"));
  if (source.find("content") == std::string::npos)
    return std::unexpected(refuse("continue_final_message is set but the template does not read content"));
  if (content->is_array()) {
    for (json::Value& part : std::ranges::reverse_view(content->as_array())) {
      json::Value* text = part.is_object() ? part.as_object().find("text") : nullptr;
      if (text != nullptr && text->is_string()) content = text;
      if (content == text) break;
    }
  }
  if (!content->is_string())
    return std::unexpected(
        refuse("continue_final_message is set but the final message has no text to continue"));
  std::string before = content->as_string();
  content->as_string() += kContinueTag;
  return before;
}

std::expected<RenderedPrompt, jinja::RenderError> cut_at_tag(RenderedPrompt prompt,
                                                             std::string_view final_text) {
  const std::string_view bare = kContinueTag.substr(0, kContinueTag.size() - 1);
  const std::size_t tag = prompt.text.rfind(bare);
  if (tag == std::string::npos || prompt.text.find(strip(final_text)) == std::string::npos)
    return std::unexpected(
        refuse("continue_final_message is set but the template does not write the final message as given"));
  const bool spaced = std::string_view(prompt.text).substr(tag).starts_with(kContinueTag);
  cut(prompt, spaced ? tag : strip_end(std::string_view(prompt.text).substr(0, tag)));
  return prompt;
}

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string source,
                                                                  SpecialTokens special_tokens,
                                                                  const jinja::Limits& limits) {
  auto compiled = jinja::Template::compile(source, limits);
  if (!compiled) return std::unexpected(compiled.error().error());
  std::shared_ptr<ChatTemplate> t(new ChatTemplate);
  t->source_ = std::move(source);
  t->template_ = std::move(*compiled);
  for (auto& [name, text] : special_tokens) t->special_tokens_.emplace_back(std::move(name), std::move(text));
  t->takes_parts_ = t->probe_parts();
  return t;
}

bool ChatTemplate::probe_parts() const {
  constexpr std::string_view kProbe = "met-probe-of-content-parts";
  json::Object part{{"type", json::Value("text")}, {"text", json::Value(kProbe)}};
  json::Object message{{"role", json::Value("user")},
                       {"content", json::Value(json::Array{json::Value(part)})}};
  const auto prompt = render_once(ChatRequest{}, json::Array{json::Value(message)});
  // A template that only knows strings fails, or prints the list as Python would.
  return prompt && prompt->text.find(kProbe) != std::string::npos &&
         prompt->text.find("'type'") == std::string::npos &&
         prompt->text.find("\"type\"") == std::string::npos;
}

std::expected<RenderedPrompt, jinja::RenderError> ChatTemplate::render_once(const ChatRequest& request,
                                                                            json::Array messages) const {
  alias_reasoning(messages);
  std::string final_text;
  if (request.continue_final_message) {
    auto tagged = tag_final_message(messages, source_);
    if (!tagged) return std::unexpected(tagged.error());
    final_text = std::move(*tagged);
  }
  const json::Value null;
  const json::Value all_messages(std::move(messages));
  const json::Value generation(request.add_generation_prompt);
  std::vector<jinja::Variable> variables;
  for (const auto& [name, text] : special_tokens_) variables.push_back({name, &text, false});
  if (request.kwargs != nullptr)
    for (const auto& [name, value] : *request.kwargs) variables.push_back({name, &value, true});
  variables.push_back({"messages", &all_messages, true});
  variables.push_back({"tools", request.tools != nullptr ? request.tools : &null, true});
  variables.push_back({"documents", request.documents != nullptr ? request.documents : &null, true});
  variables.push_back({"add_generation_prompt", &generation, false});
  auto rendered = template_->render(variables, request.now);
  if (!rendered) return std::unexpected(rendered.error());
  RenderedPrompt prompt{std::move(rendered->text), std::move(rendered->untrusted)};
  if (!request.continue_final_message) return prompt;
  return cut_at_tag(std::move(prompt), final_text);
}

Result<RenderedPrompt> ChatTemplate::render(const ChatRequest& request) const {
  if (request.messages == nullptr || !request.messages->is_array())
    return invalid("messages", "messages must be an array");
  const json::Array& messages = request.messages->as_array();
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (!messages[i].is_object())
      return invalid("messages[" + std::to_string(i) + "]",
                     "a message must be an object, not " + std::string(messages[i].type_name()));
  if (request.add_generation_prompt && request.continue_final_message)
    return invalid("continue_final_message", "continue_final_message excludes add_generation_prompt");
  if (request.kwargs != nullptr)
    for (const std::string_view name : {"messages", "tools", "documents", "add_generation_prompt"})
      if (request.kwargs->contains(name))
        return invalid("chat_template_kwargs", "chat_template_kwargs must not set " + std::string(name));

  if (request.as_given) {
    auto prompt = render_once(request, messages);
    if (!prompt) return std::unexpected(prompt.error().error());
    return std::move(*prompt);
  }
  std::optional<jinja::RenderError> first_error;
  for (json::Array& form : message_forms(messages, takes_parts_)) {
    auto prompt = render_once(request, std::move(form));
    if (prompt) return std::move(*prompt);
    if (!first_error) first_error = prompt.error();
    if (prompt.error().kind == jinja::FailureKind::kLimit) break;
  }
  return std::unexpected(first_error->error());
}

SelectedTemplate select_template(const TemplateSources& sources) {
  if (sources.explicit_text) return {*sources.explicit_text, "--chat-template", {}};
  for (const EmbeddedFile& t : embedded_templates())
    if (!sources.model_type.empty() && t.name == sources.model_type + ".jinja")
      return {std::string(t.bytes), "jinja-templates/" + sources.model_type + ".jinja", {}};
  const json::Value* given =
      sources.tokenizer_config == nullptr ? nullptr : sources.tokenizer_config->find("chat_template");
  if (given != nullptr && given->is_string()) return {given->as_string(), "tokenizer_config.json", {}};
  if (given != nullptr && given->is_array()) {
    SelectedTemplate selected{{}, "tokenizer_config.json", {}};
    bool found = false;
    for (const json::Value& named : given->as_array()) {
      const json::Value* name = named.find("name");
      const json::Value* text = named.find("template");
      if (name == nullptr || text == nullptr || !name->is_string() || !text->is_string()) continue;
      if (name->as_string() == "tool_use") selected.tool_source = text->as_string();
      if (name->as_string() == "default" || !found) selected.source = text->as_string();
      found = true;
    }
    if (found) return selected;
  }
  if (sources.jinja_file) return {*sources.jinja_file, "chat_template.jinja", {}};
  if (sources.gguf) return {*sources.gguf, "tokenizer.chat_template of the GGUF file", {}};
  for (const EmbeddedFile& t : embedded_templates())
    if (t.name == "chatml.jinja") return {std::string(t.bytes), "built-in ChatML", {}};
  return {};
}

}  // namespace met::text
