// A file of requests as they came: arrival, lengths and which texts they share. One JSON object a line.
// docs/simulation.md describes the format; lines of Mooncake's published traces are lines of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "scheduler/request.h"

namespace met::bench {

/// Some tokens of a text that is known by its number: equal numbers are equal texts from their first token on.
struct TextPiece {
  std::uint64_t text = 0;
  std::int64_t tokens = 0;
};

struct TracedRequest {
  std::int64_t at_us = 0;         ///< of its arrival
  std::vector<TextPiece> prompt;  ///< pieces one behind another
  std::int64_t prompt_tokens = 0;
  std::uint64_t output_text = 0;  ///< later prompts may hold it
  std::int64_t output_tokens = 0;
  int priority = 0;
  std::uint64_t tenant = 0;
  std::int64_t leaves_after_us = -1;  ///< its client goes then, -1: it stays
};

/// The token at a place of a text.
scheduler::TokenId token_of(std::uint64_t text, std::int64_t place);

/// In order of arrival; requests of one moment in the file's order. Errors: kInvalidArgument with the line's
/// number and its field.
Result<std::vector<TracedRequest>> read_trace(std::string_view jsonl);

/// One line, with its end.
std::string write_line(const TracedRequest& request);

/// Conversations whose lengths are spread as those that people share: short questions, long tails, a system
/// prompt that many have in common, turns that repeat all that was said before.
struct ConversationShape {
  std::int64_t requests = 1000;
  double per_second = 10;  ///< arrivals, a Poisson process
  std::uint64_t seed = 1;
  int system_prompts = 4;
  std::int64_t system_tokens = 256;
  double follow_up = 0.6;        ///< chance that a turn is followed by another
  double think_seconds = 10;     ///< mean time until then, behind an answer read at ten tokens a second
  std::int64_t context = 32768;  ///< a conversation ends before the turn that would exceed it
  int tenants = 1;
};
std::vector<TracedRequest> make_conversations(const ConversationShape& shape);

}  // namespace met::bench
