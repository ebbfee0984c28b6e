// What the one text machine gives.
#pragma once

#include <cstddef>
#include <string>

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

}  // namespace met::text
