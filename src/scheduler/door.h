// Where requests come in: checked, counted and posted on the caller's thread. Rules R1, R13, E12.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/clock.h"
#include "scheduler/engine.h"
#include "scheduler/inbox.h"

namespace met::scheduler {

/// What can never run is refused here, with the field's name (R1).
Result<> validate(const Request& request, const EngineConfig& config);

/// The accepted form of a valid request; `number` makes its seed its own.
std::shared_ptr<Record> make_record(Request request, const EngineConfig& config, std::int64_t now_us,
                                    std::uint64_t number);

/// Any thread.
class Door {
 public:
  explicit Door(const EngineConfig& config)
      : config_(config), inbox_(std::make_shared<Inbox>(static_cast<std::size_t>(2 * config.max_num_seqs))) {}

  Result<std::unique_ptr<Generation>> submit(Request request, const Clock& clock);
  Inbox& inbox() { return *inbox_; }
  std::atomic<int>& open() { return open_; }
  const std::atomic<int>& open() const { return open_; }
  const EngineConfig& config() const { return config_; }

 private:
  void give_up(int choices);

  const EngineConfig config_;
  std::shared_ptr<Inbox> inbox_;
  std::atomic<int> open_{0};  ///< choices accepted and not ended
  std::atomic<std::uint64_t> numbers_{0};
};

}  // namespace met::scheduler
