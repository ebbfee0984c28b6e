// A device without hardware: its KV blocks hold ids, and the next id is a function of all ids that a row's
// block table leads to. Any mistake with blocks, forks, positions or resumed rows changes the text (rules T2,
// T3).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/virtual_clock.h"
#include "scheduler/device.h"
#include "scheduler/spill.h"

namespace met::scheduler::testing {

/// The id that follows `context` for one choice.
TokenId next_id(const std::vector<TokenId>& context, int choice, int vocab);

struct DeviceScript {
  int vocab = 1000;
  std::int64_t step_us = 1000;
  std::int64_t token_us = 10;
  std::int64_t swap_us = 1;                ///< of a block in one direction
  std::map<int, std::int64_t> step_us_at;  ///< by number of the step
  int fails_at = -1;                       ///< the step that ends in a device error
  int refuses_at = -1;                     ///< the step that cannot be started: no memory for it
  /// Flags of the id at a position of the text that begins with a prompt.
  std::function<std::uint32_t(const std::vector<TokenId>& prompt, int choice, std::int64_t position)> flags;
};

class ScriptedDevice final : public Device {
 public:
  ScriptedDevice(const PlanConfig& config, DeviceScript script, VirtualClock& clock);
  Result<> enqueue(const StepPlan& plan, const StepBatch& batch) override;
  Result<> settle(const StepBatch& batch, StepResults& results) override;

  DeviceScript& script() { return script_; }
  int steps() const { return steps_; }
  int rows_known() const;
  /// The contents of a place of the host pool, for the disk behind it.
  struct Position {
    std::int32_t position = -1;
    TokenId id = -1;
  };
  std::vector<Position>& place(cache::SwapSlot slot) { return host_.at(static_cast<std::size_t>(slot)); }

 private:
  struct DeviceRow {
    std::vector<TokenId> prompt;
    std::vector<TokenId> history;  ///< what its sampler has seen
    int choice = 0;
    TokenId last = -1;
    std::vector<TokenId> state;  ///< of a model with one: the ids that it has seen
  };
  struct Done {
    std::int64_t done_us = 0;
    std::vector<SampleResult> samples;
    std::vector<PositionLogprobs> prompt_logprobs;
    std::int64_t swap_us = 0;
    bool replayed = false;  ///< as a GPU does: decode alone
    bool failed = false;
  };

  void run_row(const StepBatch& batch, std::size_t row, std::vector<std::vector<TokenId>>& contexts);
  SampleResult sample(const SampleWork& work, const std::vector<TokenId>& context);

  PlanConfig config_;
  StepLimits limits_;
  DeviceScript script_;
  VirtualClock& clock_;
  std::vector<std::vector<Position>> kv_;
  std::vector<std::vector<Position>> host_;
  std::vector<std::optional<DeviceRow>> rows_;
  std::vector<std::vector<TokenId>> checkpoints_;
  std::vector<Done> in_flight_;
  std::int64_t last_done_us_ = 0;
  int steps_ = 0;
};

/// A disk that is done after some polls, and fails when the script says so.
class ScriptedSpill final : public Spill {
 public:
  ScriptedSpill(ScriptedDevice& device, int blocks)
      : device_(device), disk_(static_cast<std::size_t>(blocks)) {}
  void start(const SpillMove& move) override;
  bool poll(Done& done) override;
  void on_done(std::function<void()> /*wake*/) override {}

  bool busy() const { return polls_left_ > 0; }
  int polls = 2;      ///< that a move takes
  int fails_at = -1;  ///< the move that fails
  int moves() const { return moves_; }

 private:
  ScriptedDevice& device_;
  std::vector<std::vector<ScriptedDevice::Position>> disk_;
  SpillMove move_;
  int polls_left_ = 0;
  int moves_ = 0;
};

}  // namespace met::scheduler::testing
