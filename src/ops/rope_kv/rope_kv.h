// Head norms, rotary embedding and the write of keys and values into the paged cache, one pass over the
// projections.
#pragma once

#include "core/dtype.h"
#include "gpu/backend.h"
#include "ops/attention/attention.h"
#include "ops/rope_kv/rope_frequencies.h"

namespace met::ops {

/// For each token of the step, in place on its row of qkv [(heads + 2 * kv_heads) * head_dim]:
///   q[h], k[h] = RMSNorm over head_dim with q_norm, k_norm (where given), weights + norm_offset;
///   q[h], k[h] = rotated by position * inverse[i] over the first rotary_dim values (where inverse is given);
/// then k and v go to the blocks of their sequence (layout: ops/attention/attention.h).
///
/// Types    CPU: F32 in; the cache is F16 (round to nearest even) or F32.
/// Rows     a token's result depends on its own row and position alone.
/// Oracle   FP64, tests/ops/rope_kv_test.cpp.
/// Cost     reads and writes 4 bytes a value of qkv, writes 2 bytes a value of k and v.
/// Source   RoFormer arXiv:2104.09864; query-key normalisation arXiv:2010.04245.
struct RopeKvShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  bool interleaved = false;
  float norm_eps = 0;
  float norm_offset = 0;
  DType cache = DType::kF16;  ///< of K and V: F16, or F32 for comparison with references
  KvScales scales;            ///< 1 unless the cache is E4M3
};

struct RopeKvPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  RopeKvShape shape;
  int rotary_dim = 0;
  float rope_scale = 1;
};

struct RopeKvTensors {
  gpu::DevicePtr qkv;
  gpu::DevicePtr q_norm, k_norm;  ///< null: no head norms
  gpu::DevicePtr inverse;         ///< null: no rotation
  gpu::DevicePtr k_cache, v_cache;
  gpu::DevicePtr rows, block_table, counts;
};

Result<RopeKvPlan> plan_rope_kv(gpu::GpuBackend& device, const RopeKvShape& shape,
                                const RopeFrequencies& frequencies);
Result<> rope_kv(const RopeKvPlan& plan, const RopeKvTensors& tensors, gpu::Stream stream);

}  // namespace met::ops
