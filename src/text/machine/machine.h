// The one text machine: generated token ids in, pieces of the answer out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "text/machine/answer_parser.h"
#include "text/machine/piece.h"
#include "text/stop/stop_matcher.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace met::text {

struct MachineOptions {
  std::vector<std::string> stops;
  bool include_stop = false;    ///< keep the stop string at the end of the text
  std::int64_t min_tokens = 0;  ///< a stop string that ends in the first ones is text
  bool skip_special =
      true;             ///< special tokens give no text, but for those that the format's markup is made of
  AnswerFormat format;  ///< where reasoning and calls stand
};

/// UTF-8 assembly, then channels and calls, then stop strings, over one choice of one request. Stop strings are
/// looked for in the visible text alone: not in reasoning, not in a call. The tokenizer must outlive it. Used from
/// one thread at a time.
class Machine {
 public:
  /// Errors: those of StopMatcher::create, field "stop".
  static Result<Machine> create(const Tokenizer& tokenizer, MachineOptions options = {});

  /// Pieces that `ids` decide: none while all their text is held, at most one for each kind change. Ids after
  /// a stop are ignored.
  std::vector<Piece> push(std::span<const TokenId> ids);
  /// The rest when the generation ended otherwise than by a stop; nothing after a stop. `cut`: by a limit, not
  /// by the model.
  std::vector<Piece> finish(bool cut = false);

  /// A stop string, or the last call that is allowed, ended the text.
  bool stopped() const { return stop_.stopped() || calls_ended_; }
  /// Which of `MachineOptions::stops` it was, if it was one.
  std::optional<std::size_t> stop_index() const { return stop_.stop_index(); }
  /// Number of ids up to and including the one that completed the stop: the count for
  /// scheduler::Generation::stop_at. Without a stop, the ids pushed so far.
  std::size_t stop_position() const { return ids_; }

 private:
  Machine(const Tokenizer& tokenizer, const MachineOptions& options, StopMatcher stop);
  void push_parsed(TokenId id, std::vector<Piece>& out);
  void take_parsed(std::vector<Piece>& out);
  void give(Piece piece, std::vector<Piece>& out);

  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  StopMatcher stop_;
  std::optional<AnswerParser> parser_;                    // none: all text is content
  std::vector<std::pair<TokenId, std::size_t>> markers_;  // tokens that part channels, and their numbers
  std::vector<TokenId> shown_;                            // special tokens that give text all the same
  std::size_t min_tokens_ = 0;
  int calls_max_ = 0;
  bool calls_ended_ = false;
  std::size_t ids_ = 0;        // pushed and not ignored
  std::size_t ids_given_ = 0;  // covered by pieces
};

}  // namespace met::text
