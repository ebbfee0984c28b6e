// Rows of the embedding table.
#pragma once

#include "gpu/backend.h"
#include "ops/linear/linear_pack.h"

namespace met::ops {

/// y[t, d] = scale * table[ids[t], d]; an id outside [0, n) gives zeros.
///
/// Shapes   ids: [tokens]; table: n rows of k values, packed as for ops/linear; y: [tokens, k]; `tokens` is read on the
///          device.
/// Types    CPU: y F32, the dequantised values times scale, one rounding each.
/// Rows     independent.
/// Oracle   FP64, tests/ops/embedding_test.cpp.
/// Cost     reads one packed row and writes 4 * k bytes a token.
struct EmbeddingPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  std::int64_t dim = 0;
  std::int64_t vocabulary = 0;
  float scale = 1;
};

Result<EmbeddingPlan> plan_embedding(gpu::GpuBackend& device, const LinearPack& table, float scale);
Result<> embedding(const EmbeddingPlan& plan, gpu::DevicePtr ids, gpu::DevicePtr table, gpu::DevicePtr tokens,
                   gpu::DevicePtr y, gpu::Stream stream);

}  // namespace met::ops
