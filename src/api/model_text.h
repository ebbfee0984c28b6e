// The text side of one served model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "core/error.h"
#include "core/json.h"
#include "text/tokenizer/tokenizer.h"

namespace met::api {

/// Messages as a prompt's text, and which bytes of it a client wrote.
struct RenderedPrompt {
  std::string text;
  std::vector<text::ByteRange> untrusted;
};

struct RenderOptions {
  bool add_generation_prompt = true;
  bool continue_final_message = false;  ///< the last message stays open: nothing follows its text
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

/// Immutable; used from many threads at once.
struct ModelText {
  std::vector<std::string> names;  ///< in the API, the default first
  text::Tokenizer tokenizer;
  std::shared_ptr<const ChatRenderer> chat;  ///< none: the model has no template
  std::vector<text::TokenId> eos_ids;
  config::GenerationDefaults defaults;
  std::string fingerprint;   ///< `system_fingerprint`: the same for one server's life
  std::int64_t created = 0;  ///< Unix seconds, of the model's file
};

}  // namespace met::api
