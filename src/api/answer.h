// What an answer is made of, before it has a wire form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "core/json.h"

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
};

/// Why a choice ended, in wire terms.
struct Finish {
  std::string_view reason;  ///< "stop", "length", "timeout"
  json::Value stop_reason;  ///< the stop string, the stop token's id, or null
};

/// A part of one choice, in order. The parts of a choice concatenate to the whole; the last one has `finish`.
struct AnswerPart {
  int choice = 0;
  std::string text;          ///< whole code points
  std::vector<TokenId> ids;  ///< each generated id once, the end token included
  std::vector<TokenEntry>
      entries;             ///< when log-probabilities were asked for: one an id, without the end token
  double logprob_sum = 0;  ///< of `ids`, where log-probabilities are known: ranks candidates
  std::optional<Finish> finish;
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
};

}  // namespace met::api
