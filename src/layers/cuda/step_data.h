// Where a step's tensors lie in a CUDA device's memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/launch.h"

namespace met::layers::cuda {

/// Rows of the largest head projection: steps that want more logits run it several times.
inline constexpr std::int64_t kHeadRows = 256;
inline constexpr int kHeadRuns = 2;

/// Sizes that a step's inputs are laid out for.
struct StepCapacity {
  std::int64_t tokens = 0;
  std::int64_t rows = 0;
  std::int64_t logits = 0;
};

/// What the host writes before a step, one array after another so that one copy takes them all; the block table comes
/// last, for only its front is used. Offsets in bytes, each a multiple of 16.
struct StepLayout {
  std::size_t counts = 0;
  std::size_t head_counts = 0;  ///< StepCounts[kHeadRuns], for the runs of the head
  std::size_t rows = 0;         ///< StepRow[rows]
  std::size_t ids = 0;          ///< I32[tokens]; -1: what device_rows' row sampled last
  std::size_t device_rows = 0;  ///< I32[tokens]
  std::size_t positions = 0;    ///< I32[tokens]
  std::size_t slots = 0;        ///< I32[tokens]: block * 16 + offset in it
  std::size_t logit_rows = 0;   ///< I32[logits]
  std::size_t block_table = 0;  ///< I32[…]

  explicit StepLayout(const StepCapacity& capacity);
};

/// What the step's kernels make and read. Sized once for the largest step.
struct StepTensors {
  gpu::DevicePtr hidden;  ///< [tokens, hidden] BF16: the residual stream
  gpu::DevicePtr
      scaled;  ///< [tokens, hidden]: hidden times the next norm's weight (decode), or normed (prefill)
  gpu::DevicePtr squares;    ///< F32 [256, parts]
  gpu::DevicePtr qkv;        ///< [tokens, (heads + 2 kv_heads) head_dim]
  gpu::DevicePtr attention;  ///< [tokens, heads head_dim]
  gpu::DevicePtr ffn;        ///< [tokens, ffn]
  gpu::DevicePtr branch;     ///< [tokens, hidden]: a block's output before its post-norm
  gpu::DevicePtr
      quantised;  ///< [tokens, k] E4M3: rows that the next product reads, where weights are E4M3 (prefill)
  gpu::DevicePtr row_scales;       ///< their scales, F32, as QuantiseArgs::scales
  gpu::DevicePtr coded_hidden;     ///< CodedRows that decode projections with E4M3 weights read: `scaled`,
  gpu::DevicePtr coded_attention;  ///< `attention`
  gpu::DevicePtr coded_ffn;        ///< and `ffn`; codes, then scales
  gpu::DevicePtr head_input;       ///< [logits, hidden]: gathered and normed (prefill)
  gpu::DevicePtr logits;           ///< [logits, vocabulary] F32
  gpu::DevicePtr partial;          ///< of split decode attention
  gpu::DevicePtr finished;         ///< its counters
};

/// One layer's part of the paged cache.
struct KvPair {
  gpu::DevicePtr k;
  gpu::DevicePtr v;
};

}  // namespace met::layers::cuda
