#include "layers/cuda/decoder.h"

#include <algorithm>

#include "core/log.h"
#include "layers/cuda/device_pointer.h"
#include "ops/attention/attention.h"

namespace met::layers::cuda {

namespace {

// Rows of the largest decode step whose products are projections, not gemm.
constexpr int kProjectionRows = 64;
constexpr int kProjectionRowsE4m3 = 32;
static_assert(kProjectionRowsE4m3 <= ops::cuda::kProjectionTokensE4m3);
constexpr int kSmallestPrefill = 64;  // tokens that the least prefill plan is for
// With few rows the projections before and behind attention leave room for it on their multiprocessors (0: they need not).
constexpr int kFewRows = 8;
constexpr int kSharedBeforeAttention = 128 << 10;
constexpr int kSharedBehindAttention = 160 << 10;
constexpr std::int64_t kSquareParts = 512;  // the most that a projection divides its rows into

// One buffer of StepTensors: which member it is and how many bytes it takes.
struct BufferSize {
  gpu::DevicePtr StepTensors::* member;
  std::int64_t bytes;
};

std::int64_t q_width(const config::ModelConfig& c) { return std::int64_t{c.heads} * c.head_dim; }
std::int64_t qkv_width(const config::ModelConfig& c) {
  return (std::int64_t{c.heads} + 2 * std::int64_t{c.kv_heads}) * c.head_dim;
}

// Width of the dense feed-forward blocks; 0 where every layer is a mixture of experts.
std::int64_t dense_width(const config::ModelConfig& c) {
  return std::ranges::all_of(c.layer, &config::LayerConfig::sparse) ? 0 : c.ffn;
}

// Rows of the activations in memory: a tile of the decode kernels may read past the step's own.
std::int64_t token_rows(const Decoder::Limits& limits) { return std::max(limits.step.tokens, kHeadRows); }

// Codes and scales of the rows that a decode projection with E4M3 weights reads (CodedRows).
std::int64_t coded_bytes(std::int64_t width) {
  constexpr std::int64_t kBlock = 128;
  constexpr std::int64_t kScaleBytes = kBlock / ops::cuda::kScaleValues * 4;
  return ops::cuda::kProjectionTokensE4m3 * (width + (width + kBlock - 1) / kBlock * kScaleBytes);
}

ops::cuda::DecodeAttentionShape attention_shape(const config::ModelConfig& c, const Decoder::Limits& limits,
                                                int bucket) {
  return {.heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .cache = limits.cache,
          .rows_max = bucket,
          .positions_max = static_cast<int>(limits.positions)};
}

std::vector<BufferSize> buffer_sizes(gpu::GpuBackend& device, const config::ModelConfig& c,
                                     const Decoder::Limits& limits) {
  using T = StepTensors;
  std::size_t partial = 0;
  std::size_t finished = 0;
  for (const int bucket : limits.buckets) {
    const auto plan = ops::cuda::plan_decode_attention(device, attention_shape(c, limits, bucket));
    if (!plan) continue;  // told when the decoder is made
    partial = std::max(partial, plan->partial_bytes);
    finished = std::max(finished, plan->finished_bytes);
  }
  const std::int64_t tokens = token_rows(limits);
  const auto bf16 = [](std::int64_t rows, std::int64_t width) { return rows * width * 2; };
  const bool quantised = limits.weights == DType::kF8E4M3;
  const std::int64_t widest = std::max({std::int64_t{c.hidden}, q_width(c), std::int64_t{c.ffn}});
  const std::int64_t scales_ld = ops::cuda::quantise_scales_ld(static_cast<int>(tokens));
  return {{&T::hidden, bf16(tokens, c.hidden)},
          {&T::scaled, bf16(tokens, c.hidden)},
          {&T::squares, kHeadRows * kSquareParts * 4},
          {&T::qkv, bf16(tokens, qkv_width(c))},
          {&T::attention, bf16(tokens, q_width(c))},
          {&T::ffn, bf16(tokens, dense_width(c))},
          {&T::branch, c.post_norms ? bf16(tokens, c.hidden) : 0},
          {&T::quantised, quantised ? tokens * widest : 0},
          {&T::row_scales, quantised ? (widest + 127) / 128 * scales_ld * 4 : 0},
          {&T::coded_hidden, quantised ? coded_bytes(c.hidden) : 0},
          {&T::coded_attention, quantised ? coded_bytes(q_width(c)) : 0},
          {&T::coded_ffn, quantised ? coded_bytes(dense_width(c)) : 0},
          {&T::head_input, bf16(kHeadRuns * kHeadRows, c.hidden)},
          {&T::logits, limits.step.logits * c.vocabulary * 4},
          {&T::partial, static_cast<std::int64_t>(partial)},
          {&T::finished, static_cast<std::int64_t>(finished)}};
}

// With --batch-invariant every product is cut alike, whatever the number of rows, so that the order of its sums is fixed.
constexpr ProjectionTile kInvariantTile{.rows = 64, .split = 1, .teams = 1, .chunks = 1};
const ops::cuda::GemmTile& invariant_tile(DType weights) {
  const auto tiles = ops::cuda::gemm_tiles();
  const std::string_view entry = weights == DType::kBF16 ? "gemm_bf16_128" : "gemm_e4m3_128";
  const auto it = std::ranges::find(tiles, entry, &ops::cuda::GemmTile::entry);
  MET_CHECK(it != tiles.end() && it->splits == 1, "the tile that does not divide k");
  return *it;
}

std::size_t bytes_of_inputs(const Decoder::Limits& limits) {
  // A bucket may be larger than the step that it serves.
  const StepCapacity largest{limits.step.tokens + limits.step.rows, limits.step.rows,
                             limits.step.logits + limits.step.rows};
  return StepLayout(largest).block_table + static_cast<std::size_t>(limits.table) * sizeof(std::int32_t);
}

}  // namespace

std::size_t Decoder::buffer_bytes(gpu::GpuBackend& device, const config::ModelConfig& config,
                                  const Limits& limits) {
  std::size_t bytes =
      bytes_of_inputs(limits) + MoeBlock::buffer_bytes(config, token_rows(limits), limits.weights);
  for (const BufferSize& b : buffer_sizes(device, config, limits)) bytes += static_cast<std::size_t>(b.bytes);
  return bytes;
}

Decoder::Decoder(gpu::GpuBackend& device, const config::ModelConfig& config, DecoderWeights weights,
                 const Limits& limits)
    : device_(device),
      config_(config),
      weights_(std::move(weights)),
      limits_(limits),
      routes_(device),
      input_bytes_(bytes_of_inputs(limits)),
      cache_block_bytes_(bytes_of(limits.cache, ops::kv_elements(1, config.kv_heads, config.head_dim))),
      scales_ld_(ops::cuda::quantise_scales_ld(static_cast<int>(token_rows(limits)))) {}

Result<std::unique_ptr<Decoder>> Decoder::make(gpu::GpuBackend& device, const config::ModelConfig& config,
                                               DecoderWeights weights, const Limits& limits) {
  std::unique_ptr<Decoder> decoder(new Decoder(device, config, std::move(weights), limits));
  MET_TRY(decoder->plan_decode());
  MET_TRY(decoder->plan_prefill());
  MET_ASSIGN(decoder->moe_, MoeBlock::make(device, config,
                                           {.tokens = static_cast<int>(token_rows(limits)),
                                            .buckets = decoder->limits_.buckets,
                                            .layers = decoder->weights_.layers,
                                            .batch_invariant = limits.batch_invariant}));
  return decoder;
}

void Decoder::log_route(std::string_view op, int tokens, std::int64_t n, std::int64_t k,
                        const std::string& route) {
  if (!limits_.log_routes || !routes_.first(op, tokens, n, k)) return;
  log::info(std::string(op) + " " + std::to_string(n) + " x " + std::to_string(k) + ", up to " +
            std::to_string(tokens) + " tokens: " + route);
}

template <class Plan, class Make>
Result<> Decoder::plan_product(DeviceMatrix DecoderLayerWeights::* matrix, ByStorage<Plan>& plans,
                               const Make& make) {
  for (const DecoderLayerWeights& layer : weights_.layers) {
    std::optional<Plan>& plan = plans.at(layer.*matrix);
    if (plan || (layer.*matrix).n == 0) continue;  // a mixture of experts has other plans
    MET_ASSIGN(plan, make(layer.*matrix));
  }
  return {};
}

bool Decoder::reads_codes(DeviceMatrix DecoderLayerWeights::* matrix) const {
  return std::ranges::any_of(weights_.layers, [&](const DecoderLayerWeights& layer) {
    return (layer.*matrix).type == DType::kF8E4M3;
  });
}

// With --batch-invariant all rows go one way, for their bits must not depend on what else is in the step.
bool Decoder::splits_norms(int bucket) const { return bucket <= kGemmNormRows && !limits_.batch_invariant; }

// Projections stream weights for few rows; larger steps are bound by arithmetic too (docs/performance.md, Hopper).
Result<Decoder::DecodeProduct> Decoder::plan_decode_product(const DeviceMatrix& matrix, int bucket,
                                                            Epilogue epilogue, int shared_max) {
  DecodeProduct product;
  if (bucket <= (matrix.type == DType::kF8E4M3 ? kProjectionRowsE4m3 : kProjectionRows)) {
    MET_ASSIGN(product.projection, plan_projection(matrix, bucket, epilogue, shared_max));
  } else {
    MET_ASSIGN(product.gemm, plan_gemm(matrix, bucket, epilogue, epilogue == Epilogue::kResidual));
  }
  if (matrix.type == DType::kF8E4M3) {
    MET_ASSIGN(product.quantise,
               ops::cuda::plan_quantise(device_, {.k = static_cast<int>(matrix.k), .tokens = bucket}));
  }
  MET_CHECK(epilogue != Epilogue::kResidual || product.squares_count() <= kSquareParts,
            "a product has more tiles than the buffer of squares has room for");
  return product;
}

Result<ops::cuda::ProjectionPlan> Decoder::plan_projection(const DeviceMatrix& matrix, int bucket,
                                                           Epilogue epilogue, int shared_max) {
  const bool codes = matrix.type == DType::kF8E4M3;
  const auto rows = codes ? ops::cuda::kProjectionTokensE4m3 : static_cast<int>(token_rows(limits_));
  MET_ASSIGN(auto made,
             ops::cuda::plan_projection(device_, {.n = matrix.n,
                                                  .k = matrix.k,
                                                  .tokens = bucket,
                                                  .tokens_max = rows,
                                                  .weights = matrix.type,
                                                  .block_scales = matrix.block_scales,
                                                  .epilogue = epilogue,
                                                  .coded = codes && epilogue != Epilogue::kStore,
                                                  .shared_max = bucket <= kFewRows ? shared_max : 0}));
  log_route("projection", bucket, matrix.n, matrix.k,
            std::to_string(made.columns) + " columns, tiles of " + std::to_string(made.tile.rows) +
                " rows, k in " + std::to_string(made.tile.split) + ", " + std::to_string(made.tile.stages) +
                " stages");
  return made;
}

Result<> Decoder::plan_decode() {
  using Weights = DecoderLayerWeights;
  const std::int64_t hidden = config_.hidden;
  const Epilogue activation = weights_.layers.front().activation;
  const Epilogue join = config_.post_norms ? Epilogue::kStore : Epilogue::kResidual;
  for (const int bucket : limits_.buckets) {
    DecodePlans plans;
    plans.bucket = bucket;
    const auto plan = [&](Epilogue epilogue, int shared_max = 0) {
      return [this, bucket, epilogue, shared_max](const DeviceMatrix& matrix) {
        return plan_decode_product(matrix, bucket, epilogue, shared_max);
      };
    };
    if (splits_norms(bucket)) {
      MET_TRY(plan_product(&Weights::qkv, plans.qkv, plan(Epilogue::kStore, kSharedBeforeAttention)));
      MET_TRY(plan_product(&Weights::out, plans.out, plan(join, kSharedBehindAttention)));
      MET_TRY(plan_product(&Weights::gate_up, plans.gate_up, plan(activation)));
      MET_TRY(plan_product(&Weights::down, plans.down, plan(join)));
    }
    ops::cuda::DecodeAttentionShape attention = attention_shape(config_, limits_, bucket);
    MET_ASSIGN(plans.attention, ops::cuda::plan_decode_attention(device_, attention));
    attention.positions_max = std::min(attention.positions_max, ops::cuda::kBriefPositions);
    if (ops::cuda::brief_attention_pays(attention)) {
      attention.brief = true;
      MET_ASSIGN(plans.brief_attention, ops::cuda::plan_decode_attention(device_, attention));
    }
    MET_ASSIGN(plans.embedding, ops::cuda::plan_embedding_device(device_, hidden, bucket));
    MET_ASSIGN(plans.norm, plan_norm(bucket));
    decode_plans_.push_back(plans);
  }
  for (int rows = 8; rows <= kHeadRows; rows *= 2) {
    const ops::cuda::ProjectionShape shape{
        .n = config_.vocabulary,
        .k = hidden,
        // Kernels for fewer columns add in another order.
        .tokens = limits_.batch_invariant ? static_cast<int>(kHeadRows) : rows,
        .tokens_max = static_cast<int>(kHeadRows),
        .weights = weights_.head_matrix().type,
        .epilogue = Epilogue::kStore};
    MET_ASSIGN(const auto plan, limits_.batch_invariant
                                    ? ops::cuda::plan_projection(device_, shape, kInvariantTile)
                                    : ops::cuda::plan_projection(device_, shape));
    head_plans_.push_back(plan);
  }
  return {};
}

Result<ops::cuda::ResidualNormPlan> Decoder::plan_norm(int rows) {
  return ops::cuda::plan_residual_norm(
      device_, {.dim = config_.hidden, .rows_max = rows, .fixed_order = limits_.batch_invariant});
}

Result<ops::cuda::GemmPlan> Decoder::plan_gemm(const DeviceMatrix& matrix, int tokens, Epilogue epilogue,
                                               bool next_norm) {
  const ops::cuda::GemmShape shape{.n = static_cast<int>(matrix.n),
                                   .k = static_cast<int>(matrix.k),
                                   .tokens_max = tokens,
                                   .weights = matrix.type,
                                   .epilogue = epilogue,
                                   .block_scales = matrix.block_scales,
                                   .next_norm = next_norm};
  MET_ASSIGN(auto made, limits_.batch_invariant
                            ? ops::cuda::plan_gemm(device_, shape, invariant_tile(matrix.type))
                            : ops::cuda::plan_gemm(device_, shape));
  log_route("gemm", tokens, matrix.n, matrix.k, std::string(made.tile->entry));
  return made;
}

Result<> Decoder::plan_prefill() {
  using Weights = DecoderLayerWeights;
  const Epilogue activation = weights_.layers.front().activation;
  const Epilogue join = config_.post_norms ? Epilogue::kStore : Epilogue::kResidual;
  int rotary_dim = 0;
  for (const DecoderLayerWeights& layer : weights_.layers)
    rotary_dim = std::max(rotary_dim, layer.spec.rope.rotary_dim);
  const auto tokens_max = static_cast<int>(token_rows(limits_));
  for (int tokens = kSmallestPrefill;; tokens *= 2) {
    PrefillPlans plans;
    plans.tokens = std::min(tokens, tokens_max);
    const auto plan = [&](Epilogue epilogue) {
      return [this, epilogue, tokens = plans.tokens](const DeviceMatrix& matrix) {
        return plan_gemm(matrix, tokens, epilogue);
      };
    };
    MET_TRY(plan_product(&Weights::qkv, plans.qkv, plan(Epilogue::kStore)));
    MET_TRY(plan_product(&Weights::out, plans.out, plan(join)));
    MET_TRY(plan_product(&Weights::gate_up, plans.gate_up, plan(activation)));
    MET_TRY(plan_product(&Weights::down, plans.down, plan(join)));
    MET_ASSIGN(plans.embedding, ops::cuda::plan_embedding_device(device_, config_.hidden, plans.tokens));
    MET_ASSIGN(plans.norm, plan_norm(plans.tokens));
    MET_ASSIGN(plans.rope_kv, ops::cuda::plan_rope_kv(device_, {.head_dim = config_.head_dim,
                                                                .rotary_dim = rotary_dim,
                                                                .cache = limits_.cache,
                                                                .tokens_max = plans.tokens}));
    const auto quantise = [&](ops::cuda::QuantisePlan& made, std::int64_t k) -> Result<> {
      MET_ASSIGN(made, ops::cuda::plan_quantise(device_, {.k = static_cast<int>(k), .tokens = plans.tokens}));
      return {};
    };
    if (reads_codes(&Weights::qkv) || reads_codes(&Weights::gate_up))
      MET_TRY(quantise(plans.quantise_hidden, config_.hidden));
    if (reads_codes(&Weights::out)) MET_TRY(quantise(plans.quantise_attention, q_width(config_)));
    if (reads_codes(&Weights::down)) MET_TRY(quantise(plans.quantise_ffn, config_.ffn));
    prefill_plans_.push_back(plans);
    if (plans.tokens == tokens_max) break;
  }
  MET_ASSIGN(prefill_attention_, ops::cuda::plan_prefill_attention(device_, {.heads = config_.heads,
                                                                             .kv_heads = config_.kv_heads,
                                                                             .head_dim = config_.head_dim,
                                                                             .cache = limits_.cache}));
  return {};
}

Result<> Decoder::allocate() {
  const auto take = [&](std::size_t bytes, std::string_view site) -> Result<gpu::DevicePtr> {
    if (bytes == 0) return gpu::DevicePtr{};
    MET_ASSIGN(gpu::DeviceMemory memory, gpu::DeviceMemory::allocate(device_, bytes, site));
    const gpu::DevicePtr pointer = memory.data();
    MET_TRY(device_.fill_async(pointer, 0, bytes, device_.default_stream()));
    memory_.push_back(std::move(memory));
    return pointer;
  };
  MET_ASSIGN(inputs_, take(input_bytes_, "step buffers"));
  for (const BufferSize& b : buffer_sizes(device_, config_, limits_)) {
    MET_ASSIGN(tensors_.*b.member, take(static_cast<std::size_t>(b.bytes), "step buffers"));
  }
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    KvPair pair;
    MET_ASSIGN(pair.k, take(cache_block_bytes_ * static_cast<std::size_t>(limits_.blocks), "kv pool"));
    MET_ASSIGN(pair.v, take(cache_block_bytes_ * static_cast<std::size_t>(limits_.blocks), "kv pool"));
    caches_.push_back(pair);
    MET_ASSIGN(const PrefillAttentionArgs args,
               ops::cuda::bind(prefill_attention_, {.layer = attention_args(i),
                                                    .qkv = tensors_.qkv,
                                                    .y = tensors_.attention,
                                                    .rows = {},
                                                    .block_table = {},
                                                    .counts = {},
                                                    .tokens_max = token_rows(limits_),
                                                    .blocks = limits_.blocks}));
    prefill_args_.push_back(args);
  }
  MET_TRY(describe_tensors());
  MET_TRY(moe_->allocate(weights_.layers, limits_.weights));
  return device_.synchronize(device_.default_stream());
}

Result<> Decoder::describe_tensors() {
  const auto weights = [&](const DeviceMatrix& m) {
    return ops::cuda::gemm_weights_map(device_, m.data.data(), static_cast<int>(m.n), static_cast<int>(m.k),
                                       m.type);
  };
  for (const DecoderLayerWeights& layer : weights_.layers) {
    LayerMaps& maps = maps_.emplace_back();
    MET_ASSIGN(maps.qkv, weights(layer.qkv));
    MET_ASSIGN(maps.out, weights(layer.out));
    if (layer.sparse()) continue;
    MET_ASSIGN(maps.gate_up, weights(layer.gate_up));
    MET_ASSIGN(maps.down, weights(layer.down));
  }
  const auto rows = [&](gpu::DevicePtr bf16, std::int64_t k, bool codes) -> Result<RowMaps> {
    const auto count = static_cast<int>(token_rows(limits_));
    const auto map = [&](gpu::DevicePtr x, DType type) {
      return ops::cuda::gemm_x_map(device_, x, count, static_cast<int>(k), type);
    };
    RowMaps maps{};
    MET_ASSIGN(maps.bf16, map(bf16, DType::kBF16));
    if (codes) {
      MET_ASSIGN(maps.e4m3, map(tensors_.quantised, DType::kF8E4M3));
    }
    return maps;
  };
  using Weights = DecoderLayerWeights;
  MET_ASSIGN(hidden_map_, rows(tensors_.scaled, config_.hidden,
                               reads_codes(&Weights::qkv) || reads_codes(&Weights::gate_up)));
  MET_ASSIGN(attention_map_, rows(tensors_.attention, q_width(config_), reads_codes(&Weights::out)));
  if (tensors_.ffn) {
    MET_ASSIGN(ffn_map_, rows(tensors_.ffn, config_.ffn, reads_codes(&Weights::down)));
  }
  return {};
}

std::size_t Decoder::allocated_bytes() const {
  std::size_t bytes = moe_->allocated_bytes();
  for (const gpu::DeviceMemory& memory : memory_) bytes += memory.bytes();
  return bytes;
}

AttentionLayerArgs Decoder::attention_args(std::size_t layer) const {
  const DecoderLayerWeights& w = weights_.layers[layer];
  return {.q_norm = at_device<const float>(w.q_norm),
          .k_norm = at_device<const float>(w.k_norm),
          .inv_freq = at_device<const float>(w.inverse),
          .sinks = nullptr,
          .k_cache = at_device<void>(caches_[layer].k),
          .v_cache = at_device<void>(caches_[layer].v),
          .k_scale = w.spec.kv_scales.k,
          .v_scale = w.spec.kv_scales.v,
          .heads = w.spec.heads,
          .kv_heads = w.spec.kv_heads,
          .head_dim = w.spec.head_dim,
          .rotary_dim = w.spec.rope.rotary_dim,
          .interleaved = w.spec.interleaved,
          .window = w.spec.window,
          .norm_eps = w.spec.norm_eps,
          .rope_scale = w.spec.rope.scale,
          .scale = w.spec.scale,
          .softcap = w.spec.softcap};
}

const Decoder::DecodePlans& Decoder::plans_for(int bucket) const {
  const auto it =
      std::ranges::find_if(decode_plans_, [&](const DecodePlans& p) { return p.bucket >= bucket; });
  MET_CHECK(it != decode_plans_.end(), "a step of more rows than planned");
  return *it;
}

const ops::cuda::ProjectionPlan& Decoder::head_plan(std::int64_t rows) const {
  const auto it = std::ranges::find_if(
      head_plans_, [&](const ops::cuda::ProjectionPlan& p) { return p.shape.tokens >= rows; });
  MET_CHECK(it != head_plans_.end(), "a head of more rows than planned");
  return *it;
}

const Decoder::PrefillPlans& Decoder::prefill_plans(std::int64_t tokens) const {
  const auto it =
      std::ranges::find_if(prefill_plans_, [&](const PrefillPlans& p) { return p.tokens >= tokens; });
  MET_CHECK(it != prefill_plans_.end(), "a step of more tokens than planned");
  return *it;
}

// The norm that reads the residual stream behind layer `layer`'s feed-forward block.
const gpu::DeviceMemory& Decoder::next_norm(std::size_t layer) const {
  return layer + 1 < weights_.layers.size() ? weights_.layers[layer + 1].attention_norm : weights_.final_norm;
}

}  // namespace met::layers::cuda
