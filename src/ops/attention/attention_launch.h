// The attention operation: plan and launch. Contract and cache layout: ops/attention/attention.h.
#pragma once

#include "core/dtype.h"
#include "gpu/backend.h"
#include "ops/attention/attention.h"

namespace met::ops {

struct AttentionShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int window = 0;  ///< 0: none; else positions > p - window are seen
  float scale = 0;
  float softcap = 0;          ///< 0: none
  DType cache = DType::kF16;  ///< of K and V: F16, or F32 for comparison with references
  KvScales scales;            ///< 1 unless the cache is E4M3
};

struct AttentionPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  AttentionShape shape;
};

/// Operands; `sinks` may be null.
struct AttentionTensors {
  gpu::DevicePtr qkv, k_cache, v_cache, sinks, y, rows, block_table, counts, workspace;
};

Result<AttentionPlan> plan_attention(gpu::GpuBackend& device, const AttentionShape& shape);
Result<> attention(const AttentionPlan& plan, const AttentionTensors& tensors, gpu::Stream stream);

}  // namespace met::ops
