// Messages to a prompt, through the model's own chat template.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "text/jinja/template.h"

namespace met::text {

/// What a chat template is given. The pointers are borrowed for the call; nullptr means none.
struct ChatRequest {
  const json::Value* messages = nullptr;  ///< array of objects
  const json::Value* tools = nullptr;     ///< array, or null
  const json::Value* documents = nullptr;
  bool add_generation_prompt = true;
  bool continue_final_message =
      false;  ///< the prompt ends inside the last message, which the model goes on with
  const json::Object* kwargs = nullptr;  ///< chat_template_kwargs: further variables
  std::tm now{};                         ///< local time that strftime_now shows
  /// Render exactly what was given, as transformers does: no flattening, merging or parsing.
  bool as_given = false;
};

/// A prompt and the bytes of it that came from the request (sorted, disjoint): no control token may be
/// recognised where it touches one.
struct RenderedPrompt {
  std::string text;
  std::vector<ByteRange> untrusted;
};

/// Special tokens by name ("bos_token", "eos_token", ...) as templates see them.
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

/// A compiled chat template. Immutable: any number of threads may render it at once.
///
/// Unless `as_given`, a request is adapted to what the template can take: null fields are left out; JSON text
/// in tool call arguments is parsed; text parts are joined for templates that know strings only; when the
/// template refuses, it is tried again with all system messages merged at the head in their order, and with
/// missing contents as empty strings. If every form fails the first form's error is returned.
class ChatTemplate {
 public:
  /// Errors: kInvalidArgument on "chat_template" with line and column.
  static Result<std::shared_ptr<const ChatTemplate>> compile(std::string source, SpecialTokens special_tokens,
                                                             const jinja::Limits& limits = {});

  /// Errors: kInvalidArgument; the template's own sentence when it refuses the messages.
  Result<RenderedPrompt> render(const ChatRequest& request) const;

  /// Filters, tests and tags that do not exist here, with line and column.
  const std::vector<std::string>& warnings() const { return template_->warnings(); }
  /// Whether the template reads this variable: "tools", "enable_thinking", "documents"...
  bool mentions(std::string_view variable) const { return template_->mentions(variable); }
  /// Whether the template takes content as a list of parts; else parts are joined to one string.
  bool takes_parts() const { return takes_parts_; }
  const std::string& source() const { return source_; }

 private:
  ChatTemplate() = default;
  std::expected<RenderedPrompt, jinja::RenderError> render_once(const ChatRequest& request,
                                                                json::Array messages) const;
  bool probe_parts() const;

  std::string source_;
  std::shared_ptr<const jinja::Template> template_;
  std::vector<std::pair<std::string, json::Value>> special_tokens_;
  bool takes_parts_ = false;
};

/// Where a template may come from, best first. Texts, not paths: the caller reads the files.
struct TemplateSources {
  std::optional<std::string> explicit_text;       ///< --chat-template
  std::string model_type;                         ///< looked up among the embedded overrides
  const json::Value* tokenizer_config = nullptr;  ///< its chat_template: a string, or [{name, template}]
  std::optional<std::string> jinja_file;          ///< chat_template.jinja
  std::optional<std::string> gguf;                ///< tokenizer.chat_template
};

struct SelectedTemplate {
  std::string source;
  std::string origin;  ///< for the log: "--chat-template", "chat_template.jinja", "built-in ChatML"...
  std::optional<std::string> tool_source;  ///< a template of its own for requests with tools
};

/// The first source there is; ChatML when there is none.
SelectedTemplate select_template(const TemplateSources& sources);

}  // namespace met::text
