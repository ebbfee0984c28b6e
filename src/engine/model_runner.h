// Carries out the scheduler's steps on a model: uploads a step, runs it, samples.
#pragma once

#include <span>

#include "config/model_config.h"
#include "core/dtype.h"
#include "core/prefill_mode.h"
#include "engine/swap_pool.h"
#include "ops/attention/kv_format.h"
#include "scheduler/device.h"

namespace met::engine {

/// What every runner is sized by.
struct RunnerOptions {
  scheduler::StepLimits limits;
  std::int64_t positions = 0;    ///< longest sequence
  std::int64_t blocks = 0;       ///< of the pool, the null block among them
  ops::KvFormat cache;           ///< of K and V
  DType weights = DType::kBF16;  ///< of the layers, on devices that can choose
  std::int64_t swap_blocks = 0;  ///< places of the host's swap pool
  bool graphs = true;            ///< replay captured steps; false: enqueue kernel by kernel
  bool log_routes = false;       ///< METRALE_GEMM_SHAPE_LOG
  PrefillMode prefill;           ///< which prefill rows share a step (P4)
  bool batch_invariant = false;  ///< a row's bits do not depend on the other rows of its step
};

/// Owns the step buffers, the paged cache and the samplers. Called from the executor's thread only.
class ModelRunner : public scheduler::Device {
 public:
  /// Logits of wanted row i of the step that settled last, after the model's own scale and soft cap,
  /// [vocabulary]. They are the host's to change, until the next step.
  virtual std::span<float> logits_row(std::int32_t row) = 0;
  virtual const config::ModelConfig& config() const = 0;
  /// Bytes allocated for buffers and pool, for the check against the plan (M2).
  virtual std::size_t allocated_bytes() const = 0;
  /// Null without one.
  virtual SwapPool* swap_pool() = 0;
};

/// Aborts when the prefill rows of a step are no wave of this mode (P4): the kernels get what was planned, or
/// nothing.
void check_wave(const scheduler::StepPlan& plan, PrefillMode mode);

/// Bytes of one block of 16 positions over all layers, K and V.
std::size_t kv_block_bytes(const config::ModelConfig& config, const ops::KvFormat& cache);

}  // namespace met::engine
