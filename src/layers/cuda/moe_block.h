// Mixtures of experts in a decoder's steps on a CUDA device (docs/hopper.md).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "config/model_config.h"
#include "layers/cuda/decoder_weights.h"
#include "ops/cuda/moe.h"
#include "ops/cuda/moe_few.h"
#include "ops/cuda/moe_router.h"
#include "ops/cuda/quantise.h"

namespace met::layers::cuda {

class MoeBlock {
 public:
  struct Limits {
    int tokens = 0;                               ///< of a step, at most
    std::span<const int> buckets;                 ///< rows that decode steps are planned for, ascending
    std::span<const DecoderLayerWeights> layers;  ///< whose matrices tell how they are stored
    bool batch_invariant = false;
  };

  /// Bytes that allocate() takes; 0 without experts. `weights` F8E4M3: some matrices may be.
  static std::size_t buffer_bytes(const config::ModelConfig& config, std::int64_t tokens, DType weights);

  /// Looks every kernel up and allocates nothing. Without experts an empty block, whose steps are never asked for.
  static Result<MoeBlock> make(gpu::GpuBackend& device, const config::ModelConfig& config,
                               const Limits& limits);
  /// Buffers, and what the kernels need to know of the layers' matrices. Called once, before the first step.
  Result<> allocate(std::span<const DecoderLayerWeights> layers, DType weights);
  std::size_t allocated_bytes() const { return memory_ ? memory_.bytes() : 0; }

  /// What a step's block reads and writes.
  struct Rows {
    gpu::DevicePtr counts;    ///< StepCounts
    gpu::DevicePtr residual;  ///< [tokens, hidden]: h
    gpu::DevicePtr scaled;    ///< the block's input, and then that of the next one
    gpu::DevicePtr squares;
    gpu::DevicePtr next_norm;  ///< weights of the norm that reads h behind the block; null: none does
  };
  /// A step of at most `bucket` rows of one token each: `scaled` is h times the norm's weight, which `norm` describes, on
  /// entry and again behind the block.
  Result<> decode(std::size_t layer, int bucket, const MoeMatrices& w, const Rows& rows, RowSquares& norm,
                  gpu::Stream stream) const;
  /// Any other step of up to `tokens` tokens: `scaled` holds normed rows.
  Result<> mixed(std::size_t layer, std::int64_t tokens, const MoeMatrices& w, const Rows& rows,
                 gpu::Stream stream) const;

 private:
  /// A product, for each type that some layer has its matrix in, and the kernel that makes rows E4M3 for it.
  struct Product {
    std::optional<ops::cuda::MoeGemmPlan> bf16, e4m3;
    ops::cuda::QuantisePlan quantise;
    std::optional<ops::cuda::MoeGemmPlan>& of(DType type) { return type == DType::kF8E4M3 ? e4m3 : bf16; }
    const ops::cuda::MoeGemmPlan& of(const DeviceMatrix& matrix) const;
  };
  /// Plans for steps of up to so many tokens.
  struct Plans {
    int tokens = 0;
    ops::cuda::MoeRouterPlan router;
    Product gate_up, down;
    ops::cuda::MoeCombinePlan combine;
  };
  /// Tensor maps of a layer's matrices, for tiles of 64 rows and of 128.
  struct Maps {
    DeviceTensorMap gate_up[2], down[2];
  };
  /// The pairs of a step and what comes of them.
  struct Buffers {
    gpu::DevicePtr normed;    ///< [bucket, hidden] BF16
    gpu::DevicePtr logits;    ///< F32 [tokens, experts]
    gpu::DevicePtr finished;  ///< I32: the router's counters
    gpu::DevicePtr begin, tokens, places, weights, choices;
    gpu::DevicePtr gated;        ///< [tokens * top_k, width]
    gpu::DevicePtr y;            ///< [tokens * top_k, hidden]
    gpu::DevicePtr codes;        ///< E4M3: rows that a product reads
    gpu::DevicePtr code_scales;  ///< F32: theirs
  };

  MoeBlock() = default;
  static std::size_t place(const config::ModelConfig& config, std::int64_t tokens, DType weights,
                           Buffers& buffers);
  Result<> plan_few(const Limits& limits);
  /// The plan for exactly this bucket; null: none takes it.
  const ops::cuda::MoeFewPlan* few_for(int bucket, const MoeMatrices& w) const;
  Result<> plan_products(const Limits& limits, Plans& plans);
  MoePairs pairs() const;
  const Plans& plans_for(std::int64_t tokens) const;
  Result<> route(const Plans& plans, const MoeMatrices& w, const Rows& rows, const RowSquares& norm,
                 gpu::Stream stream) const;
  Result<> multiply(std::size_t layer, const Plans& plans, const MoeMatrices& w, const Rows& rows,
                    gpu::DevicePtr x, gpu::Stream stream) const;
  QuantiseArgs quantise_args(const DeviceMatrix& matrix, gpu::DevicePtr x, const Rows& rows,
                             std::int32_t scales_ld) const;
  MoeCombineArgs combine_args(const Rows& rows) const;

  gpu::GpuBackend* device_ = nullptr;
  config::ModelConfig config_;
  int tokens_ = 0;
  std::vector<ops::cuda::MoeFewPlan> few_;  ///< by bucket, as far as they fit, and types of the matrices
  std::vector<Plans> plans_;                ///< by tokens
  std::vector<Maps> maps_;                  ///< by layer
  gpu::DeviceMemory memory_;
  Buffers buffers_;
};

}  // namespace met::layers::cuda
