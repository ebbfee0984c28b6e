// Parts of an answer to wire bytes. A streamed and a collected answer are made of the same parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/answer.h"
#include "api/error.h"
#include "api/prepare.h"
#include "api/request.h"

namespace met::api {

/// What every chunk of one answer repeats.
struct AnswerHead {
  std::string id;  ///< "chatcmpl-…", "cmpl-…"
  std::int64_t created = 0;
  std::string model;
  std::string fingerprint;
};

/// Writes one answer. Calls in this order: `begin`, then for each prompt at most one `prompt` before its
/// parts, `part`s, `end`. Each appends bytes to send to `out`: server-sent events for a stream; the whole
/// body in `end` otherwise.
class Encoder {
 public:
  virtual ~Encoder() = default;
  virtual void begin(const Usage& so_far, std::string& out) = 0;
  virtual void prompt(std::size_t index, const std::vector<TokenEntry>& entries, std::string& out) = 0;
  virtual void part(const AnswerPart& part, const Usage& so_far, std::string& out) = 0;
  virtual void end(const Usage& usage, std::string& out) = 0;
  /// An error in the middle of a stream, in place of `end`. Default: OpenAI's, one event with the error
  /// object, then the terminator.
  virtual void fail(const ApiError& error, std::string& out);
  /// What a silent stream says. Default: a comment line.
  virtual void keepalive(std::string& out);
};

/// `choices` is the number of candidates: prompts × max(n, best_of).
std::unique_ptr<Encoder> chat_stream(AnswerHead head, const GenerationRequest& request,
                                     const Prepared& prepared);
std::unique_ptr<Encoder> chat_collect(AnswerHead head, const GenerationRequest& request,
                                      const Prepared& prepared);
std::unique_ptr<Encoder> completion_stream(AnswerHead head, const GenerationRequest& request,
                                           const Prepared& prepared);
std::unique_ptr<Encoder> completion_collect(AnswerHead head, const GenerationRequest& request,
                                            const Prepared& prepared);

/// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details": {"cached_tokens"},
/// "completion_tokens_details": {"reasoning_tokens"}} and the times of the first and the last token. The rate is that of
/// the tokens behind the first.
json::Value usage_json(const Usage& usage);

/// An id that belongs to an answer: `prefix`, the answer's random digits, choice and index. The same for one
/// place of one answer, so that a stream and a stored object agree.
std::string part_id(std::string_view prefix, const AnswerHead& head, int choice, int index);

/// vLLM's prompt_logprobs: null for the first token, then {"id": {"logprob", "rank", "decoded_token"}}.
json::Value prompt_logprobs_json(const std::vector<TokenEntry>& entries);
/// OpenAI's chat form: [{"token", "logprob", "bytes", "top_logprobs"}]; see `token_name`.
json::Value chat_logprobs_json(const std::vector<TokenEntry>& entries, bool as_ids);
/// How log-probabilities name a token: by its text, or "token_id:N", as vLLM's return_tokens_as_token_ids asks for.
std::string token_name(const ScoredToken& token, bool as_ids);

}  // namespace met::api
