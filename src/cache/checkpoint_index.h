// Saved copies of recurrent state, by the identity of the block boundary at which they were taken. Rules H2 to H4, H7, H9.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/siphash.h"

namespace met::cache {

/// Numbers of slots alone; what lies in them is the device's. Not thread-safe; nothing allocates after construction. Every
/// search is linear in the slots, of which there are few.
class CheckpointIndex {
 public:
  static constexpr std::int32_t kNone = -1;

  explicit CheckpointIndex(std::int32_t slots) : entries_(static_cast<std::size_t>(slots)) {}

  struct Hit {
    std::int32_t slot = kNone;
    std::int64_t blocks = 0;  ///< leading blocks of the chain that its state has seen
  };
  /// The deepest checkpoint on `chain`; with `session` only among those of it (H9).
  Hit deepest(std::span<const Hash128> chain, const std::uint64_t* session) const {
    Hit hit;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      const auto blocks = static_cast<std::size_t>(entry.blocks);
      if (!entry.published || entry.blocks <= hit.blocks || blocks > chain.size()) continue;
      if (session != nullptr && entry.session != *session) continue;
      if (chain[blocks - 1] == entry.identity) hit = {static_cast<std::int32_t>(i), entry.blocks};
    }
    return hit;
  }
  void touch(std::int32_t slot) { at(slot).used = ++clock_; }

  /// A slot to write to: an empty one, else the one that was used least recently, which is given up; kNone when a step in
  /// flight writes to all of them.
  std::int32_t take() {
    std::int32_t oldest = kNone;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].taken) continue;
      const auto slot = static_cast<std::int32_t>(i);
      if (oldest == kNone || entries_[i].used < at(oldest).used) oldest = slot;
    }
    if (oldest == kNone) return kNone;
    evictions_ += at(oldest).published ? 1 : 0;
    at(oldest) = {.taken = true};
    return oldest;
  }
  /// What was written to a taken slot can be hit from now on. The first writer wins: of two the later is given back, and the
  /// result is false.
  bool publish(std::int32_t slot, const Hash128& identity, std::int64_t blocks, std::uint64_t session) {
    MET_CHECK(at(slot).taken && blocks > 0, "only a taken slot is published");
    for (const Entry& entry : entries_)
      if (entry.published && entry.identity == identity && entry.session == session) {
        give_back(slot);
        return false;
      }
    at(slot) = {
        .published = true, .identity = identity, .blocks = blocks, .session = session, .used = ++clock_};
    return true;
  }
  void give_back(std::int32_t slot) { at(slot) = {}; }

  std::int32_t slots() const { return static_cast<std::int32_t>(entries_.size()); }
  std::int32_t taken() const {
    std::int32_t count = 0;
    for (const Entry& entry : entries_) count += entry.taken ? 1 : 0;
    return count;
  }
  /// Slots that hold a checkpoint, or that a step in flight writes to.
  std::int32_t used() const {
    std::int32_t count = 0;
    for (const Entry& entry : entries_) count += entry.taken || entry.published ? 1 : 0;
    return count;
  }
  std::int64_t evictions() const { return evictions_; }

 private:
  struct Entry {
    bool taken = false;  ///< a step in flight writes to it
    bool published = false;
    Hash128 identity{};
    std::int64_t blocks = 0;
    std::uint64_t session = 0;
    std::uint64_t used = 0;
  };
  Entry& at(std::int32_t slot) { return entries_[static_cast<std::size_t>(slot)]; }

  std::vector<Entry> entries_;
  std::uint64_t clock_ = 0;
  std::int64_t evictions_ = 0;
};

}  // namespace met::cache
