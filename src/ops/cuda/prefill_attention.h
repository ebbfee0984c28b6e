// Attention of prefill rows over the paged cache on CUDA devices.
#pragma once

#include "core/dtype.h"
#include "gpu/backend.h"
#include "met/cuda_ops.h"

namespace met::ops::cuda {

/// Formula, rounding and cost: kernels/hopper/common/prefill_attention.cu. One plan serves all layers of these sizes;
/// window, sinks, softcap and scales are each layer's own.
///
/// Errors   kUnsupported for a head_dim that no kernel has, for heads that are no multiple of kv_heads, or for another
///          cache type.
struct PrefillAttentionShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  DType cache = DType::kBF16;  ///< or F8E4M3
};

struct PrefillAttentionPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  PrefillAttentionShape shape;
  gpu::Dim3 grid;
  std::uint32_t shared_bytes = 0;
};

/// What a layer's launches read and write.
struct PrefillAttentionTensors {
  AttentionLayerArgs layer;
  gpu::DevicePtr qkv;  ///< [tokens_max, (heads + 2 * kv_heads) * head_dim] after rope_kv
  gpu::DevicePtr y;    ///< [tokens_max, heads * head_dim]
  gpu::DevicePtr rows, block_table, counts;
  std::int64_t tokens_max = 0;
  std::int64_t blocks = 0;  ///< of the layer's caches
};

Result<PrefillAttentionPlan> plan_prefill_attention(gpu::GpuBackend& device,
                                                    const PrefillAttentionShape& shape);
/// Describes the tensors for bulk copies: once a layer, at load.
Result<PrefillAttentionArgs> bind(const PrefillAttentionPlan& plan, const PrefillAttentionTensors& tensors);
Result<> prefill_attention(const PrefillAttentionPlan& plan, const PrefillAttentionArgs& args,
                           gpu::Stream stream);
/// The launch alone, for a caller that enqueues it itself.
gpu::KernelLaunch prefill_attention_launch(const PrefillAttentionPlan& plan,
                                           const PrefillAttentionArgs& args);

}  // namespace met::ops::cuda
