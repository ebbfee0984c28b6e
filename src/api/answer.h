// What an answer is made of, before it has a wire form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "core/json.h"
#include "text/machine/machine.h"

namespace met::api {

/// A token with its log-probability.
struct ScoredToken {
  TokenId id = 0;
  std::string text;   ///< what it adds to the text; in `top`, its bytes as text
  std::string bytes;  ///< its exact bytes
  float logprob = 0;
};

/// One position: the token there and the best ones.
struct TokenEntry {
  ScoredToken token;
  bool scored = true;  ///< false: the first token of a prompt, which nothing predicts
  std::vector<ScoredToken> top;
  std::int64_t rank = 0;  ///< of the token: likelier ones, plus 1
};

/// Why a choice ended, in wire terms.
struct Finish {
  std::string_view reason;  ///< "stop", "length", "tool_calls", "timeout", "repetition"
  json::Value stop_reason;  ///< the stop string, the stop token's id, what was found, or null
  /// The text was ended before its own end.
  bool cut() const { return reason == "length" || reason == "timeout" || reason == "repetition"; }
};

/// A part of one choice, of one kind, in order. The parts of a choice concatenate to the whole; the last one
/// has `finish`.
struct AnswerPart {
  using Kind = text::Piece::Kind;
  int choice = 0;
  Kind kind = Kind::kContent;
  int call = 0;              ///< of the kCall kinds: which call of the choice
  bool custom = false;       ///< of the kCall kinds: of a custom tool, whose input stands for its arguments
  bool complete = true;      ///< of kCallEnd: the arguments are a whole JSON object
  bool refusal = false;      ///< of content: it declines what was asked
  std::string text;          ///< whole code points, as text::Piece says
  std::vector<TokenId> ids;  ///< each generated id once, the end token included
  std::vector<TokenEntry>
      entries;             ///< when log-probabilities were asked for: one an id; the end token's has no text
  double logprob_sum = 0;  ///< of `ids`, where log-probabilities are known: ranks candidates
  std::optional<Finish> finish;
};

/// A stretch of one kind: all the reasoning up to the content, the content up to a call, one call.
struct Segment {
  enum class Kind { kReasoning, kContent, kRefusal, kCall };
  Kind kind = Kind::kContent;
  std::string text;     ///< of a call: the JSON text of its arguments
  std::string name;     ///< of a call: the function
  bool custom = false;  ///< of a call: of a custom tool; `text` is its input
  std::vector<TokenEntry> entries;
};

/// The parts of one choice put together.
struct Answer {
  std::vector<Segment> segments;  ///< in order; none is without text unless it is a call
  std::vector<TokenId> ids;
  std::vector<TokenEntry> entries;
  double logprob_sum = 0;
  std::optional<Finish> finish;

  void add(const AnswerPart& part);
  /// The texts of all segments of a kind, in order.
  std::string text(Segment::Kind kind) const;
  bool has(Segment::Kind kind) const;
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t reasoning_tokens = 0;  ///< of completion_tokens
  double first_token_s = 0;           ///< from the submission on; 0: there is none yet
  double total_s = 0;                 ///< up to the last token so far
};

}  // namespace met::api
