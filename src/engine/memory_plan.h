// How the device's memory is divided, computed from headers before any weight is read (rules M1 to M7).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "core/error.h"

namespace met::engine {

/// What the plan starts from. Sizes in bytes.
struct MemoryInputs {
  std::size_t total = 0;      ///< of the device
  std::size_t free = 0;       ///< now
  double utilization = 0.90;  ///< ceiling on the total (devices of their own memory)
  bool host_memory = true;    ///< the CPU: the pool is kv_bytes, or M7's default
  std::size_t kv_bytes = 0;   ///< asked for; 0: by rule
  std::size_t weights = 0;
  std::size_t arena = 0;  ///< step buffers and kernel workspace
  std::size_t block = 0;  ///< one block of all layers, K and V
  std::size_t swap = 0;   ///< the swap pool, in the host's memory
  int block_tokens = 16;
  std::int64_t max_seq_len = 0;  ///< 0: the model's, as far as memory goes
  std::int64_t model_positions = 0;
  int max_batch_size = 0;
};

struct MemoryTerm {
  std::string name;
  std::size_t bytes = 0;
  std::string formula;
};

struct MemoryPlan {
  std::vector<MemoryTerm> terms;  ///< in the order of the formula
  std::size_t budget = 0;
  std::int64_t blocks = 0;  ///< of the pool, the null block among them
  std::int64_t max_seq_len = 0;
  bool seq_len_lowered = false;  ///< `auto` had to give way (M5)
};

/// Errors: kResourceExhausted naming the largest term and the flag that shrinks it (M3).
Result<MemoryPlan> plan_memory(const MemoryInputs& inputs);

/// The plan as a table, for `--dry-run` and the log.
std::string describe(const MemoryPlan& plan);

}  // namespace met::engine
