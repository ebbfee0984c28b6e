// From a checked request to token ids: the last step before the engine.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "api/compaction.h"
#include "api/context_edits.h"
#include "api/error.h"
#include "api/model_text.h"
#include "api/request.h"
#include "sampling/constraint.h"
#include "sampling/params.h"
#include "text/machine/answer_parser.h"

namespace met::api {

/// One prompt, as text and as ids.
struct Prompt {
  std::vector<TokenId> ids;
  std::string text;            ///< of completions that echo: what comes back
  std::size_t text_begin = 0;  ///< of the ids that spell it
  std::size_t text_count = 0;
};

/// What a handler submits: the prompts, and what they are sampled with.
struct Prepared {
  Cuts cuts;                       ///< what the conversation lost to fit
  std::vector<AppliedEdit> edits;  ///< what it lost because the request said so
  std::vector<Prompt> prompts;
  sampling::SamplingParams sampling;                       ///< the request's, with words and breakers as ids
  text::AnswerFormat format;                               ///< how the answer is read
  std::shared_ptr<const sampling::Constraint> constraint;  ///< the request's grammar, compiled; null: none
  std::vector<TokenId> eos_ids;  ///< that end an answer; none with `ignore_eos` and no grammar
};

/// Renders, tokenizes, checks lengths, compiles the grammar. Work of a text thread: time is linear in the prompt,
/// and bounded for the grammar. Errors: the template's own sentence (400), `context_length_exceeded` with both
/// numbers, those of grammar::Compiler.
/// `compact_from`: the share of `max_seq_len` from which on a chat is shortened (C1); 0: never.
std::expected<Prepared, ApiError> prepare(const GenerationRequest& request, const ModelText& model,
                                          std::int64_t max_seq_len, double compact_from = 0);

/// The ids of a chat request's prompt, however long, before anything is cleared.
Result<std::vector<TokenId>> prompt_ids(const GenerationRequest& request, const ModelText& model);
/// Tokens of that prompt.
struct PromptSize {
  std::int64_t tokens = 0;
  std::int64_t before_edits = 0;
};
Result<PromptSize> prompt_size(const GenerationRequest& request, const ModelText& model);
/// The ids of one prompt of a chat.
Result<std::vector<TokenId>> chat_ids(const json::Array& messages, const RenderOptions& options,
                                      const ModelText& model);

}  // namespace met::api
