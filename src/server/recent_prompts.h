// The prompts that were asked last, so that it can be said where another one leaves them. Any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/request.h"

namespace met::server {

class RecentPrompts {
 public:
  using TokenId = scheduler::TokenId;
  static constexpr std::size_t kPromptsMax = 64;
  static constexpr std::size_t kIdsMax = 1'000'000;  ///< of all of them; a longer prompt is not kept

  void add(std::uint64_t tenant, std::span<const TokenId> ids) {
    if (ids.size() > kIdsMax) return;
    const std::lock_guard lock(mutex_);
    prompts_.push_front({tenant, {ids.begin(), ids.end()}});
    ids_ += ids.size();
    while (prompts_.size() > kPromptsMax || ids_ > kIdsMax) {
      ids_ -= prompts_.back().ids.size();
      prompts_.pop_back();
    }
  }

  /// The one of this tenant that has the most first ids in common with `ids`, of several the last.
  struct Nearest {
    std::int64_t ago = 0;          ///< 0: the last prompt of all
    std::int64_t common = 0;       ///< first ids
    std::vector<TokenId> goes_on;  ///< what follows there, at most `wanted`
  };
  std::optional<Nearest> nearest(std::uint64_t tenant, std::span<const TokenId> ids,
                                 std::size_t wanted) const {
    const std::lock_guard lock(mutex_);
    std::optional<Nearest> best;
    const Prompt* chosen = nullptr;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      const Prompt& prompt = prompts_[i];
      if (prompt.tenant != tenant) continue;
      const auto common = std::ranges::mismatch(ids, prompt.ids).in1 - ids.begin();
      if (best && common <= best->common) continue;
      best = Nearest{.ago = static_cast<std::int64_t>(i), .common = common, .goes_on = {}};
      chosen = &prompt;
    }
    if (best) {
      const auto begin = chosen->ids.begin() + best->common;
      best->goes_on.assign(begin, begin + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(wanted),
                                                                   chosen->ids.end() - begin));
    }
    return best;
  }

 private:
  struct Prompt {
    std::uint64_t tenant = 0;
    std::vector<TokenId> ids;
  };
  mutable std::mutex mutex_;  ///< guards what follows
  std::deque<Prompt> prompts_;
  std::size_t ids_ = 0;
};

}  // namespace met::server
