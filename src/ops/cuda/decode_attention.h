// Attention of a step's decode rows on CUDA devices, with head norms, rotation and the cache write of the new token.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "gpu/backend.h"
#include "met/cuda_ops.h"

namespace met::ops::cuda {

/// Contexts of up to so many positions are brief: few rows of them have a kernel of their own.
inline constexpr int kBriefPositions = 512;

/// Formula, rounding and cost: kernels/hopper/common/decode_attention.cu. One plan serves all layers of a step with
/// the same sizes, windowed or not.
///
/// Errors   kUnsupported for a head_dim other than 16, 32, 64, 96, 128 and 256, heads that kv_heads does not divide,
///          or another cache type.
struct DecodeAttentionShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  DType cache = DType::kBF16;  ///< or F8E4M3
  int rows_max = 0;            ///< of the captured step
  int positions_max = 0;       ///< longest context
  bool brief = false;          ///< the form for few rows of up to kBriefPositions
};

struct DecodeAttentionPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  gpu::Dim3 grid;
  gpu::Dim3 block;
  std::uint32_t cluster = 1;  ///< blocks that take the splits of a row together
  std::uint32_t shared_bytes = 0;
  int splits = 1;
  int split_tokens_min = 0;
  std::size_t partial_bytes = 0;   ///< of DecodeAttentionArgs::partial, any contents
  std::size_t finished_bytes = 0;  ///< of DecodeAttentionArgs::finished, zero before the first launch
};

/// Whether the form for brief contexts is there and was measured to be faster than the other.
bool brief_attention_pays(const DecodeAttentionShape& shape);
Result<DecodeAttentionPlan> plan_decode_attention(gpu::GpuBackend& device, const DecodeAttentionShape& shape);
/// `args` but for its last three members, which are the plan's.
Result<> decode_attention(const DecodeAttentionPlan& plan, const DecodeAttentionArgs& args,
                          gpu::Stream stream);
/// The launch alone, for a caller that enqueues it itself.
gpu::KernelLaunch decode_attention_launch(const DecodeAttentionPlan& plan, const DecodeAttentionArgs& args);

}  // namespace met::ops::cuda
