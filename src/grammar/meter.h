// Bounds on what the grammar engine takes: it allocates through here, and going over a bound is an exception in
// the thread that called it. The engine cannot be interrupted otherwise; unwinding leaves it as after any
// failed allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

namespace met::grammar {

/// Thrown inside the engine; caught by this folder.
struct OverBudget : std::exception {
  explicit OverBudget(bool memory) : of_memory(memory) {}
  const char* what() const noexcept override { return of_memory ? "memory budget" : "time budget"; }
  bool of_memory;
};

/// While it lives, the calling thread may use `cpu_us` of CPU time and hold `bytes` more than at its begin.
/// Time is looked at when the engine allocates. Budgets do not nest.
class Budget {
 public:
  Budget(std::int64_t cpu_us, std::size_t bytes);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
};

}  // namespace met::grammar
