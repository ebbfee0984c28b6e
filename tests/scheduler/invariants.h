// What every plan and every state must keep, whatever the events were: checked after each tick of a simulation.
#pragma once

#include <cstdint>
#include <map>

#include "scheduler/engine_loop.h"

namespace met::scheduler::testing {

class Invariants {
 public:
  explicit Invariants(const PlanConfig& config) : config_(config) {}
  /// Of the plan that the last tick carried out, and the state behind it. Fails the running test.
  void check(const EngineLoop& loop);

 private:
  void check_plan(const StepPlan& plan, const EngineLoop& loop) const;
  void check_order_of_eviction(const EngineLoop& loop);

  const PlanConfig config_;
  std::map<Hash128, Hash128> parents_;  ///< of identities that stood behind one another in a table
};

}  // namespace met::scheduler::testing
