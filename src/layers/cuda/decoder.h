// A decoder's steps on a CUDA device: which kernels run, in which order, on which memory (docs/hopper.md).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/model_config.h"
#include "gpu/op_cache.h"
#include "layers/cuda/decoder_weights.h"
#include "layers/cuda/moe_block.h"
#include "layers/cuda/step_data.h"
#include "ops/cuda/decode_attention.h"
#include "ops/cuda/gemm.h"
#include "ops/cuda/prefill_attention.h"
#include "ops/cuda/projection.h"
#include "ops/cuda/quantise.h"
#include "ops/cuda/residual_norm.h"
#include "ops/cuda/rope_kv.h"

namespace met::layers::cuda {

class Decoder {
 public:
  struct Limits {
    StepCapacity step;           ///< of the largest step
    std::vector<int> buckets;    ///< rows that decode steps are planned for, ascending, the last is step.rows
    std::int64_t table = 0;      ///< entries of the block table
    std::int64_t blocks = 0;     ///< of the pool
    std::int64_t positions = 0;  ///< longest sequence
    DType cache = DType::kBF16;  ///< of K and V, or F8E4M3
    DType weights = DType::kBF16;  ///< of the layers; F8E4M3: some may be
    bool batch_invariant = false;
    bool log_routes = false;  ///< tells once for each product how it is cut
  };

  /// Bytes of buffers: what allocate() takes beside the pool.
  static std::size_t buffer_bytes(gpu::GpuBackend& device, const config::ModelConfig& config,
                                  const Limits& limits);

  /// Looks every kernel up and allocates nothing.
  static Result<std::unique_ptr<Decoder>> make(gpu::GpuBackend& device, const config::ModelConfig& config,
                                               DecoderWeights weights, const Limits& limits);
  /// Buffers and pool. Called once, before the first step.
  Result<> allocate();

  /// Where the ids that each device row sampled last lie, I32. Called once, before the first step.
  void feed_from(gpu::DevicePtr ids) { fed_ = ids; }

  /// Enqueues a step of at most `bucket` rows of one token each, every one of which wants logits: embedding to logits.
  /// Inputs are laid out for {bucket, bucket, bucket}. `brief`: no row sees more than kBriefPositions; only where there
  /// is a form for such steps.
  Result<> decode(int bucket, bool brief, gpu::Stream stream) const;
  bool has_brief(int bucket) const;

  /// What a step with prefill rows holds.
  struct Mixed {
    StepCapacity capacity;  ///< exact sizes of the step, which its inputs are laid out for
    bool decode_rows = false;
    bool prefill_rows = false;
  };
  /// Enqueues any other step, kernel by kernel.
  Result<> mixed(const Mixed& step, gpu::Stream stream) const;

  /// Where the host writes a step's inputs (StepLayout).
  gpu::DevicePtr inputs() const { return inputs_; }
  std::size_t input_bytes() const { return input_bytes_; }
  const StepTensors& tensors() const { return tensors_; }
  std::span<const KvPair> caches() const { return caches_; }
  std::size_t cache_block_bytes() const { return cache_block_bytes_; }
  std::size_t allocated_bytes() const;
  const config::ModelConfig& config() const { return config_; }

 private:
  /// How a matrix of a layer is stored; layers may differ.
  enum class Storage { kBf16, kE4m3Rows, kE4m3Blocks };
  static Storage storage_of(const DeviceMatrix& matrix) {
    if (matrix.type == DType::kBF16) return Storage::kBf16;
    return matrix.block_scales ? Storage::kE4m3Blocks : Storage::kE4m3Rows;
  }
  /// The plans of one product, for every storage that a layer has it in.
  template <class Plan>
  struct ByStorage {
    std::optional<Plan> plans[3];
    std::optional<Plan>& at(const DeviceMatrix& matrix) {
      return plans[static_cast<std::size_t>(storage_of(matrix))];
    }
    const Plan& of(const DeviceMatrix& matrix) const {
      const std::optional<Plan>& plan = plans[static_cast<std::size_t>(storage_of(matrix))];
      MET_CHECK(plan.has_value(), "a matrix stored as none that was planned for");
      return *plan;
    }
  };
  /// A product of a decode step: one of both.
  struct DecodeProduct {
    std::optional<ops::cuda::ProjectionPlan> projection;
    std::optional<ops::cuda::GemmPlan> gemm;
    ops::cuda::QuantisePlan quantise;  ///< of the rows it reads, where weights are E4M3
    /// Whether its rows are CodedRows; others become what it reads by `quantise`.
    bool reads_coded() const { return projection && projection->shape.weights == DType::kF8E4M3; }
    bool writes_coded() const { return projection && projection->shape.coded; }
    int squares_count() const { return projection ? projection->squares_count : gemm->squares_count; }
  };
  /// Plans of products only where splits_norms(bucket).
  struct DecodePlans {
    int bucket = 0;
    ByStorage<DecodeProduct> qkv, out, gate_up, down;
    ops::cuda::DecodeAttentionPlan attention;
    std::optional<ops::cuda::DecodeAttentionPlan> brief_attention;  ///< of kBriefPositions at most
    ops::cuda::EmbeddingDevicePlan embedding;
    ops::cuda::ResidualNormPlan norm;
  };
  /// Plans for steps of up to so many tokens.
  struct PrefillPlans {
    int tokens = 0;
    ByStorage<ops::cuda::GemmPlan> qkv, out, gate_up, down;
    ops::cuda::EmbeddingDevicePlan embedding;
    ops::cuda::ResidualNormPlan norm;
    ops::cuda::RopeKvPlan rope_kv;
    ops::cuda::QuantisePlan quantise_hidden, quantise_attention, quantise_ffn;  ///< where weights are E4M3
  };
  /// Tensor maps of the rows that a product reads: as they are, and in `quantised`.
  struct RowMaps {
    DeviceTensorMap bf16, e4m3;
  };
  /// A norm, and the matrix whose rows it makes.
  struct NormFor {
    const gpu::DeviceMemory& norm;
    const DeviceMatrix& matrix;
  };
  /// Tensor maps of a layer's products.
  struct LayerMaps {
    DeviceTensorMap qkv, out, gate_up, down;
  };

  Decoder(gpu::GpuBackend& device, const config::ModelConfig& config, DecoderWeights weights,
          const Limits& limits);
  Result<> plan_decode();
  /// Whether decode steps leave norms to the products around them; the others go the way of steps with prefill rows.
  bool splits_norms(int bucket) const;
  /// Whether some layer has this matrix in E4M3, for which prefill turns rows into E4M3.
  bool reads_codes(DeviceMatrix DecoderLayerWeights::* matrix) const;
  /// A plan for every storage of one matrix, made by `make` from a matrix that has it.
  template <class Plan, class Make>
  Result<> plan_product(DeviceMatrix DecoderLayerWeights::* matrix, ByStorage<Plan>& plans, const Make& make);
  Result<DecodeProduct> plan_decode_product(const DeviceMatrix& matrix, int bucket, Epilogue epilogue,
                                            int shared_max);
  Result<ops::cuda::ProjectionPlan> plan_projection(const DeviceMatrix& matrix, int bucket, Epilogue epilogue,
                                                    int shared_max);
  Result<> plan_prefill();
  Result<ops::cuda::ResidualNormPlan> plan_norm(int rows);
  /// `next_norm`: kResidual also writes what the next norm needs.
  Result<ops::cuda::GemmPlan> plan_gemm(const DeviceMatrix& matrix, int tokens, Epilogue epilogue,
                                        bool next_norm = false);
  void log_route(std::string_view op, int tokens, std::int64_t n, std::int64_t k, const std::string& route);
  const DecodePlans& plans_for(int bucket) const;
  const ops::cuda::ProjectionPlan& head_plan(std::int64_t rows) const;
  const PrefillPlans& prefill_plans(std::int64_t tokens) const;
  Result<> describe_tensors();
  MoeBlock::Rows moe_rows(const StepLayout& at, const gpu::DeviceMemory* next_norm) const;
  AttentionLayerArgs attention_args(std::size_t layer) const;
  const gpu::DeviceMemory& next_norm(std::size_t layer) const;
  /// Arguments of `residual_norm` that every use shares.
  ResidualNormArgs norm_args(const StepLayout& at) const;

  Result<> embed(const ops::cuda::EmbeddingDevicePlan& plan, const StepLayout& at,
                 const gpu::DeviceMemory* next_norm, gpu::Stream stream) const;
  /// `coded`: where the output goes in place of `attention`, if it has codes.
  Result<> decode_attention(std::size_t layer, const ops::cuda::DecodeAttentionPlan& plan,
                            const CodedRows& coded, const StepLayout& at, gpu::Stream stream) const;
  /// A decode step's product and the rows that it reads.
  struct DecodeInput {
    const DecodeProduct& plan;
    const DeviceMatrix& matrix;
    const DeviceTensorMap& weights;
    gpu::DevicePtr x;
    const RowMaps& rows;
    gpu::DevicePtr codes;  ///< where codes of x go,
    bool coded;            ///< or are already
  };
  /// What a decode step knows of the residual stream's rows as the next product reads them.
  struct Hidden {
    RowSquares norm;
    bool coded = false;  ///< they stand in coded_hidden, not in `scaled`
  };
  /// Where rows of `width` values are coded for `reader`; no codes where it reads others.
  static CodedRows coded_rows(gpu::DevicePtr buffer, std::int64_t width, const DecodeProduct& reader);
  /// `to`: what the product writes, and the norm in front of it; the rest is filled in.
  Result<> decode_product(const DecodeInput& in, ops::cuda::ProjectionTensors to, const StepLayout& at,
                          gpu::Stream stream) const;
  /// Whose input the residual stream is behind a block.
  struct DecodeNext {
    const gpu::DeviceMemory& norm;
    const DecodeProduct* reader;  ///< null: no product of a layer
  };
  Result<> decode_join(const DecodeInput& in, const gpu::DeviceMemory& post_norm, const DecodeNext& next,
                       const DecodePlans& plans, const StepLayout& at, Hidden& hidden,
                       gpu::Stream stream) const;
  Result<> decode_layer(std::size_t layer, const DecodePlans& plans, bool brief, const StepLayout& at,
                        Hidden& hidden, gpu::Stream stream) const;
  Result<> prefill_attention(std::size_t layer, const Mixed& step, const PrefillPlans& plans,
                             const StepLayout& at, gpu::Stream stream) const;
  /// One product of a step with prefill rows: rows of `x` as they are in BF16, or as `quantised` holds them.
  struct Product {
    const ByStorage<ops::cuda::GemmPlan>& plans;
    const DeviceMatrix& matrix;
    const DeviceTensorMap& weights;
    const RowMaps& x;
    gpu::DevicePtr y;
    std::int64_t width = 0;  ///< of y
    Epilogue epilogue = Epilogue::kStore;
  };
  /// Arguments of a product by `gemm`, but for what it writes and its norms.
  GemmArgs gemm_args(const DeviceMatrix& matrix, const DeviceTensorMap& weights, const RowMaps& x,
                     const StepLayout& at) const;
  Result<> multiply(const Product& product, const StepLayout& at, gpu::Stream stream) const;
  Result<> quantise_rows(const ops::cuda::QuantisePlan& plan, gpu::DevicePtr x, const gpu::DeviceMemory* norm,
                         const DeviceMatrix& matrix, const StepLayout& at, gpu::Stream stream) const;
  Result<> code_rows(const ops::cuda::QuantisePlan& plan, gpu::DevicePtr x, const CodedRows& to,
                     const StepLayout& at, gpu::Stream stream) const;
  Result<> norm_rows(const NormFor& next, const PrefillPlans& plans, const StepLayout& at,
                     gpu::Stream stream) const;
  Result<> mixed_join(const gpu::DeviceMemory& post_norm, const NormFor* next, const PrefillPlans& plans,
                      const StepLayout& at, gpu::Stream stream) const;
  Result<> mixed_moe(std::size_t layer, const Mixed& step, const PrefillPlans& plans, const StepLayout& at,
                     gpu::Stream stream) const;
  Result<> mixed_layer(std::size_t layer, const Mixed& step, const PrefillPlans& plans, const StepLayout& at,
                       gpu::Stream stream) const;
  Result<> mixed_head(const Mixed& step, const StepLayout& at, gpu::Stream stream) const;

  gpu::GpuBackend& device_;
  config::ModelConfig config_;
  DecoderWeights weights_;
  Limits limits_;
  gpu::OpCache routes_;
  std::vector<DecodePlans> decode_plans_;              ///< by bucket
  std::vector<ops::cuda::ProjectionPlan> head_plans_;  ///< by rows, 8 to kHeadRows
  std::vector<PrefillPlans> prefill_plans_;            ///< by tokens
  ops::cuda::PrefillAttentionPlan prefill_attention_;
  std::vector<PrefillAttentionArgs> prefill_args_;  ///< by layer; a step adds its inputs
  std::vector<LayerMaps> maps_;                     ///< by layer
  RowMaps hidden_map_{}, attention_map_{}, ffn_map_{};
  std::optional<MoeBlock> moe_;
  std::vector<gpu::DeviceMemory> memory_;
  gpu::DevicePtr inputs_;
  gpu::DevicePtr fed_;
  std::size_t input_bytes_ = 0;
  std::size_t cache_block_bytes_ = 0;
  std::int32_t scales_ld_ = 0;  ///< of row_scales
  StepTensors tensors_;
  std::vector<KvPair> caches_;
};

}  // namespace met::layers::cuda
