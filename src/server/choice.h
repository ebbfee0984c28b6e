// One choice of a running request: engine events in, parts of the answer out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/answer.h"
#include "api/custom_tools.h"
#include "api/model_text.h"
#include "api/prepare.h"
#include "api/refusal.h"
#include "scheduler/request.h"
#include "server/repetition.h"
#include "text/machine/machine.h"

namespace met::server {

/// Detokenizes, finds stop strings, pairs ids with their log-probabilities. The model must outlive it. Used
/// from one thread at a time.
class Choice {
 public:
  /// `number` is the choice's index on the wire, `prepared` says how its text is read and which ids end it. Errors: those of text::Machine,
  /// field "stop".
  static Result<Choice> create(int number, const api::GenerationRequest& request, const api::ModelText& model,
                               const api::Prepared& prepared);

  /// Takes a kTokens event; gives one part for each change of kind. Ids after a stop string are ignored.
  std::vector<api::AnswerPart> push(const scheduler::Event& event);
  /// The end as the engine told it (kFinished).
  std::vector<api::AnswerPart> finish(scheduler::FinishReason reason);

  /// A stop string, the last allowed call or a repetition ended the text: the part that says so was given by `push`.
  bool stopped() const { return machine_.stopped() || repeated_; }
  /// Which of them, as the engine counts it.
  scheduler::FinishReason stop_reason() const {
    return repeated_ ? scheduler::FinishReason::kRepetition : scheduler::FinishReason::kStopText;
  }
  bool ended() const { return ended_; }
  /// Ids that count: up to the one that ended the text.
  std::int64_t completion_tokens() const { return completion_tokens_; }
  /// Those of them that gave reasoning.
  std::int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  Choice(int number, const api::GenerationRequest& request, const api::ModelText& model,
         const api::Prepared& prepared, text::Machine machine);
  bool ends(api::TokenId id) const;
  using Parts = std::vector<api::AnswerPart>;
  void add(api::TokenId id, const scheduler::PositionLogprobs* logprobs, Parts& parts);
  void take(std::vector<text::Piece> pieces, Parts& parts);
  void unwrap_input(text::Piece& piece, Parts& parts);
  api::AnswerPart& part_of(const text::Piece& piece, Parts& parts);
  api::AnswerPart& last_part(Parts& parts);
  void flush(api::Finish finish, Parts& parts);
  void close(api::Finish finish, Parts& parts);
  bool repeats(api::TokenId id);
  Parts sifted(Parts parts);

  int number_;
  const api::ModelText* model_;
  std::vector<std::string> stops_;
  std::vector<api::TokenId> eos_ids_;
  std::vector<api::TokenId> stop_ids_;
  bool keep_stop_token_;
  bool want_entries_;
  bool show_reasoning_;
  std::vector<std::string> custom_tools_;         // by name
  std::optional<api::CustomInput> custom_input_;  // of the open call, where it is one of these
  std::int64_t min_tokens_;
  std::int64_t max_tokens_;
  RepetitionDetector repetition_;
  std::optional<api::RefusalFilter> refusals_;  // where they are looked for
  text::Machine machine_;
  text::StreamDecoder token_texts_;
  std::vector<api::TokenId> held_ids_;  // of tokens that no part has covered yet
  std::vector<api::TokenEntry> held_entries_;
  std::optional<api::TokenId> end_token_;
  std::optional<api::TokenEntry> end_entry_;  // where it is not shown
  bool end_token_shown_ = false;
  std::int64_t completion_tokens_ = 0;
  std::int64_t reasoning_tokens_ = 0;
  double logprob_sum_ = 0;  // of ids that no part has covered yet
  bool called_ = false;
  bool repeated_ = false;
  bool ended_ = false;
};

/// Entries of a prompt's tokens from kPromptLogprobs: the first is not scored. Texts concatenate to the
/// prompt's.
std::vector<api::TokenEntry> prompt_entries(const std::vector<api::TokenId>& ids,
                                            const std::vector<scheduler::PositionLogprobs>& logprobs,
                                            const api::ModelText& model);

}  // namespace met::server
