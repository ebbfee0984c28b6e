// The text side of one served model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "core/error.h"
#include "core/json.h"
#include "grammar/grammar.h"
#include "text/reasoning/reasoning.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tools/tool_parser.h"

namespace met::api {

/// Messages as a prompt's text, and which bytes of it a client wrote.
struct RenderedPrompt {
  std::string text;
  std::vector<text::ByteRange> untrusted;
};

struct RenderOptions {
  bool add_generation_prompt = true;
  bool continue_final_message = false;  ///< the last message stays open: nothing follows its text
  bool add_special_tokens = false;      ///< the tokenizer's own BOS and the like, besides the template's
  json::Object variables;               ///< chat_template_kwargs
  json::Array tools;                    ///< definitions, as in the request; empty: none
};

/// A chat template. Used from many threads at once. Errors: kInvalidArgument with the template's own
/// sentence.
class ChatRenderer {
 public:
  virtual ~ChatRenderer() = default;
  virtual Result<RenderedPrompt> render(const json::Array& messages, const RenderOptions& options) const = 0;
};

/// How the model writes what is not plain text, and what its template can be told about it.
struct AnswerHabits {
  text::ToolFormat tools = text::ToolFormat::kNone;
  text::ReasoningFormat reasoning = text::ReasoningFormat::kNone;
  bool takes_tools = false;                ///< the template shows the model its tools
  bool takes_effort = false;               ///< the template has a place for the effort of reasoning
  bool disable_thinking = false;           ///< the server allows no reasoning
  std::optional<bool> default_thinking;    ///< what the server's variables tell every template
  bool thinking_in_tools = true;           ///< false: no reasoning with tools unless the request asks for it
  std::int64_t effort_tokens = 256;        ///< budget of medium effort where the template does not take it
  std::optional<std::int64_t> budget_max;  ///< tokens of reasoning, whatever a request asks
};

/// Immutable; used from many threads at once.
struct ModelText {
  std::vector<std::string> names;  ///< in the API, the default first
  text::Tokenizer tokenizer;
  std::shared_ptr<const ChatRenderer> chat;  ///< none: the model has no template
  AnswerHabits habits;
  std::vector<text::TokenId> eos_ids;
  config::GenerationDefaults defaults;
  std::shared_ptr<grammar::Compiler> grammars;  ///< for what a text must be; none: such requests are refused
  std::string fingerprint;                      ///< `system_fingerprint`: the same for one server's life
  std::int64_t created = 0;                     ///< Unix seconds, of the model's file
};

}  // namespace met::api
