// Grouped-query attention with its norms, projections and residual.
#pragma once

#include <memory>
#include <optional>

#include "layers/layer.h"
#include "layers/projection.h"
#include "ops/attention/attention_launch.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope_kv/rope_kv.h"

namespace met::layers {

/// hidden += post(out(attention(rope(head_norm(qkv(norm(hidden)))))))
struct AttentionSpec {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int window = 0;     ///< 0: none
  float scale = 0;    ///< of q·k
  float softcap = 0;  ///< 0: none
  float norm_eps = 0;
  float norm_offset = 0;
  bool interleaved = false;  ///< rotary pairs
  DType cache = DType::kF16;
  ops::KvScales kv_scales;    ///< of an E4M3 cache
  ops::RopeFrequencies rope;  ///< rotary_dim 0: no position embedding
};

struct AttentionWeights {
  Projection qkv;  ///< its own norm folded in
  Projection out;
  gpu::DeviceMemory q_norm, k_norm;  ///< [head_dim] F32; empty: none
  gpu::DeviceMemory post_norm;       ///< [hidden] F32; empty: none
  gpu::DeviceMemory inverse;         ///< rope.inverse on the device
};

class AttentionLayer final : public TransformerLayer {
 public:
  static Result<std::unique_ptr<AttentionLayer>> make(gpu::GpuBackend& device, const AttentionSpec& spec,
                                                      AttentionWeights weights, std::int64_t hidden);
  /// Called once, when the pool's size is known.
  void bind(const KvLayer& cache) { cache_ = cache; }

  Result<> forward(const StepBuffers& buffers, gpu::Stream stream) const override;

  const AttentionSpec& spec() const { return spec_; }

 private:
  AttentionSpec spec_;
  AttentionWeights weights_;
  ops::RopeKvPlan rope_kv_;
  ops::AttentionPlan attention_;
  std::optional<ops::RmsNormPlan> post_norm_;
  KvLayer cache_;
};

}  // namespace met::layers
