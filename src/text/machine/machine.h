// The one text machine: generated token ids in, pieces of the answer out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "text/stop/stop_matcher.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace met::text {

/// A part of the answer, in order. Equal kinds (of one call) concatenate: the collected answer is the sum of
/// the streamed one.
struct Piece {
  enum class Kind {
    kContent,
    kReasoning,
    kCallBegin,      ///< a tool call: `text` is the function's whole name
    kCallArguments,  ///< further bytes of the JSON text of its arguments
    kCallEnd,        ///< the end of its arguments; `text` is empty
  };
  Kind kind = Kind::kContent;
  std::string text;      ///< valid UTF-8; empty when its tokens gave no text yet
  int call = 0;          ///< of the kCall kinds: which call of the answer, from 0; one is open at a time
  bool complete = true;  ///< of kCallEnd: the arguments are a whole JSON object
  /// Ids that this piece accounts for: [tokens_begin, tokens_end) counted from the first generated id. Ranges
  /// of successive pieces adjoin, so that each id's log-probability is sent exactly once.
  std::size_t tokens_begin = 0;
  std::size_t tokens_end = 0;
};

struct MachineOptions {
  std::vector<std::string> stops;
  bool include_stop = false;  ///< keep the stop string at the end of the text
  bool skip_special = true;   ///< special tokens give no text
};

/// UTF-8 assembly, then stop strings, over one choice of one request. The tokenizer must outlive it. Used
/// from one thread at a time.
class Machine {
 public:
  /// Errors: those of StopMatcher::create, field "stop".
  static Result<Machine> create(const Tokenizer& tokenizer, MachineOptions options = {});

  /// Pieces that `ids` decide: none while all their text is held, at most one for each kind change. Ids after
  /// a stop are ignored.
  std::vector<Piece> push(std::span<const TokenId> ids);
  /// The rest when the generation ended otherwise than by a stop string; nothing after a stop.
  std::vector<Piece> finish();

  /// A stop string ended the text.
  bool stopped() const { return stop_.stopped(); }
  /// Which of `MachineOptions::stops` it was.
  std::optional<std::size_t> stop_index() const { return stop_.stop_index(); }
  /// Number of ids up to and including the one that completed the stop string: the count for
  /// scheduler::Generation::stop_at. Without a stop, the ids pushed so far.
  std::size_t stop_position() const { return ids_; }

 private:
  Machine(const Tokenizer& tokenizer, bool skip_special, StopMatcher stop)
      : decoder_(tokenizer, skip_special), stop_(std::move(stop)) {}
  void give(std::string text, std::vector<Piece>& out);

  StreamDecoder decoder_;
  StopMatcher stop_;
  std::size_t ids_ = 0;        // pushed and not ignored
  std::size_t ids_given_ = 0;  // covered by pieces
};

}  // namespace met::text
