// The disk behind the host's swap pool: what the scheduler needs of it. Blocks go from host slots to disk slots and back
// beside the device's steps. The engine implements it (rule S25).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "cache/slot_pool.h"
#include "core/error.h"

namespace met::scheduler {

using cache::SwapSlot;

/// One transfer of whole blocks: host[i] and disk[i] are the two places of a block. The spans stay valid until it is done.
struct SpillMove {
  bool store = false;  ///< host to disk, else disk to host
  std::span<const SwapSlot> host;
  std::span<const SwapSlot> disk;
};

/// Used by the engine's thread; one move at a time.
class Spill {
 public:
  virtual ~Spill() = default;
  /// Begins the move and returns.
  virtual void start(const SpillMove& move) = 0;
  /// How the move ended, once; nothing while it runs.
  struct Done {
    Result<> result;
    std::int64_t us = 0;  ///< what it took
  };
  virtual bool poll(Done& done) = 0;
  /// `wake` is called, from any thread, when a move has ended.
  virtual void on_done(std::function<void()> wake) = 0;
};

}  // namespace met::scheduler
