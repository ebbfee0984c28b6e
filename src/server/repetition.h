// Tells when an answer runs in circles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "api/request.h"

namespace met::server {

/// Looks at an answer's ids as they come. The work and the memory of an id are the number of pattern sizes, however
/// often a pattern must come and however long the answer is.
class RepetitionDetector {
 public:
  /// A rule that is off never finds anything.
  explicit RepetitionDetector(const api::RepetitionRule& rule)
      : first_(static_cast<std::size_t>(rule.on() ? rule.min_pattern : 1)),
        count_(static_cast<std::size_t>(rule.on() ? rule.min_count : 0)),
        matched_(rule.on() ? static_cast<std::size_t>(rule.max_pattern - rule.min_pattern + 1) : 0) {}

  /// True: `id` completed the last of `min_count` equal patterns, one behind the other, at the answer's end.
  bool push(api::TokenId id);

 private:
  std::size_t first_;  // size of the smallest pattern
  std::size_t count_;
  std::vector<std::size_t> matched_;  // of each size: how many ids at the end equal the one a pattern before
  std::vector<api::TokenId> tail_;    // the last ids, as many as the largest pattern, a ring
  std::size_t seen_ = 0;
};

}  // namespace met::server
