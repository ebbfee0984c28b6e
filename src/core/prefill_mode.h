// How prompts share a step: one value, resolved once at start and passed by value, and the rules that follow from
// it. Rules P3 to P6 of docs/scheduler-and-engine.md.
#pragma once

#include <cstdint>

namespace met {

/// Resolved from flag, file, environment and hardware (engine/prefill_switches.h); nothing reads a switch later (P3).
struct PrefillMode {
  bool codispatch = false;   ///< new prompts wait a moment for each other when nothing runs (P7)
  bool first_chunk = false;  ///< rows that begin their prompt may go together
  bool varlen = true;        ///< a wave is ragged (P5)
  bool operator==(const PrefillMode&) const = default;
};

/// Positions [begin, begin + tokens) of a prompt. The prefill rows of one step are a wave.
struct PrefillRow {
  std::int64_t begin = 0;
  std::int64_t tokens = 0;
};

/// P4: whether a wave of several rows may hold rows that begin their prompt.
constexpr bool batches_chunk_zero(PrefillMode mode) {
  return mode.codispatch || mode.first_chunk || mode.varlen;
}

/// Whether `row` may go in the wave that `first` is the first row of (P4, P6).
constexpr bool joins_wave(PrefillMode mode, PrefillRow first, PrefillRow row) {
  const bool chunk_zero = first.begin == 0 || row.begin == 0;
  if (chunk_zero && !batches_chunk_zero(mode)) return false;
  return mode.varlen || (first.begin == row.begin && first.tokens == row.tokens);
}

}  // namespace met
