// A conversation that nears the context is shortened (rules C1-C3).
#pragma once

#include <string>

#include "core/json.h"

namespace met::api {

/// What was cut from a conversation.
struct Cuts {
  int shortened = 0;    ///< messages of which only the first and last lines are left
  int markers = 0;      ///< messages of which only a note is left
  int dropped = 0;      ///< messages that are gone
  bool system = false;  ///< the system prompt lost its middle

  bool any() const { return shortened + markers + dropped > 0 || system; }
  /// "shortened=1, markers=2, dropped=3, system=1": what is zero is left out.
  std::string text() const;
};

/// Rules C2's stages, by how much they cut.
enum class CompactionStage { kEnds, kMarkers, kLastSix, kLastFour };

/// The stage that a prompt calls for which fills this share of the context.
CompactionStage compaction_stage(double fill);

/// `messages` (checked, content is text) shortened by one stage; adds to `cuts` what was cut. A pure function.
json::Array compacted(const json::Array& messages, CompactionStage stage, Cuts& cuts);

}  // namespace met::api
