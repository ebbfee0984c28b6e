#include "layers/cuda/moe_block.h"

#include <algorithm>

#include "layers/cuda/device_pointer.h"
#include "ops/gated_activation/gated_activation.h"

namespace met::layers::cuda {

namespace {

constexpr int kSmallestPlan = 8;     // tokens that the least plan is for
constexpr int kDecodeRows = 256;     // of a step whose input is not normed yet, at most
constexpr std::size_t kAlign = 256;  // of a buffer
constexpr int kWideRows = 128;       // of W in the larger tiles

/// Scales of `rows` rows of k values, one for 128.
std::int64_t scale_count(std::int64_t k, std::int64_t rows) {
  return (k + config::kFp8Block - 1) / config::kFp8Block *
         ops::cuda::quantise_scales_ld(static_cast<int>(rows));
}

std::size_t is_wide(const ops::cuda::MoeGemmPlan& plan) { return plan.rows == kWideRows ? 1 : 0; }

bool is_e4m3(const DeviceMatrix& matrix) { return matrix.type == DType::kF8E4M3; }

ops::cuda::ExpertWeights expert_weights(const DeviceMatrix& matrix) {
  return {.data = matrix.data.data(), .scales = matrix.scales.data(), .block_scales = matrix.block_scales};
}

}  // namespace

// Buffers one after another from address 0; returns where they end.
std::size_t MoeBlock::place(const config::ModelConfig& c, std::int64_t tokens, DType weights,
                            Buffers& buffers) {
  std::size_t end = 0;
  const auto take = [&](gpu::DevicePtr& at, std::int64_t count, std::size_t each) {
    at = {end};
    end = (end + static_cast<std::size_t>(count) * each + kAlign - 1) / kAlign * kAlign;
  };
  const std::int64_t pairs = tokens * c.experts_per_token;
  take(buffers.normed, std::int64_t{kDecodeRows} * c.hidden, sizeof(Bf16Bits));
  take(buffers.logits, tokens * c.experts, sizeof(float));
  take(buffers.finished, tokens + 1, sizeof(std::int32_t));
  take(buffers.begin, c.experts + 1, sizeof(std::int32_t));
  take(buffers.tokens, pairs, sizeof(std::int32_t));
  take(buffers.places, pairs, sizeof(std::int32_t));
  take(buffers.weights, pairs, sizeof(float));
  take(buffers.choices, pairs, sizeof(std::int32_t));
  take(buffers.gated, pairs * c.expert_ffn, sizeof(Bf16Bits));
  take(buffers.y, pairs * c.hidden, sizeof(Bf16Bits));
  if (weights == DType::kF8E4M3) {
    take(buffers.codes, std::max(tokens * c.hidden, pairs * c.expert_ffn), 1);
    take(buffers.code_scales, std::max(scale_count(c.hidden, tokens), scale_count(c.expert_ffn, pairs)),
         sizeof(float));
  }
  return end;
}

std::size_t MoeBlock::buffer_bytes(const config::ModelConfig& config, std::int64_t tokens, DType weights) {
  Buffers none;
  return config.experts > 0 ? place(config, tokens, weights, none) : 0;
}

const ops::cuda::MoeGemmPlan& MoeBlock::Product::of(const DeviceMatrix& matrix) const {
  const auto& plan = is_e4m3(matrix) ? e4m3 : bf16;
  MET_CHECK(plan.has_value(), "experts stored as none that was planned for");
  return *plan;
}

// Three kernels a layer, for every bucket that they take and the types that layers have their matrices in.
Result<> MoeBlock::plan_few(const Limits& limits) {
  for (const int bucket : limits.buckets)
    for (const DecoderLayerWeights& layer : limits.layers) {
      const ops::cuda::MoeFewShape shape{.hidden = config_.hidden,
                                         .width = config_.expert_ffn,
                                         .experts = config_.experts,
                                         .top_k = config_.experts_per_token,
                                         .tokens = bucket,
                                         .renormalise = config_.renormalise_experts,
                                         .activation = ops::gated_epilogue(config_.activation),
                                         .gate_up = layer.moe.gate_up.type,
                                         .down = layer.moe.down.type};
      if (!layer.sparse() || !fits_moe_few(shape) || few_for(bucket, layer.moe) != nullptr) continue;
      MET_ASSIGN(few_.emplace_back(), ops::cuda::plan_moe_few(*device_, shape));
    }
  return {};
}

const ops::cuda::MoeFewPlan* MoeBlock::few_for(int bucket, const MoeMatrices& w) const {
  const auto it = std::ranges::find_if(few_, [&](const ops::cuda::MoeFewPlan& plan) {
    return plan.shape.tokens == bucket && plan.shape.gate_up == w.gate_up.type &&
           plan.shape.down == w.down.type;
  });
  return it != few_.end() ? &*it : nullptr;
}

Result<> MoeBlock::plan_products(const Limits& limits, Plans& plans) {
  const auto plan = [&](Product& product, const DeviceMatrix& matrix, std::int64_t n, std::int64_t k,
                        Epilogue epilogue) -> Result<> {
    auto& made = product.of(matrix.type);
    if (made) return {};
    MET_ASSIGN(made, ops::cuda::plan_moe_gemm(*device_, {.n = n,
                                                         .k = k,
                                                         .experts = config_.experts,
                                                         .top_k = config_.experts_per_token,
                                                         .tokens = plans.tokens,
                                                         .epilogue = epilogue,
                                                         .weights = matrix.type}));
    return {};
  };
  for (const DecoderLayerWeights& layer : limits.layers) {
    if (!layer.sparse()) continue;
    MET_TRY(plan(plans.gate_up, layer.moe.gate_up, std::int64_t{2} * config_.expert_ffn, config_.hidden,
                 ops::gated_epilogue(config_.activation)));
    MET_TRY(plan(plans.down, layer.moe.down, config_.hidden, config_.expert_ffn, Epilogue::kStore));
  }
  if (plans.gate_up.e4m3) {
    MET_ASSIGN(plans.gate_up.quantise,
               ops::cuda::plan_quantise(*device_, {.k = config_.hidden, .tokens = plans.tokens}));
  }
  if (plans.down.e4m3) {
    MET_ASSIGN(plans.down.quantise,
               ops::cuda::plan_quantise_pairs(
                   *device_, {.k = config_.expert_ffn, .tokens = plans.tokens * config_.experts_per_token}));
  }
  return {};
}

Result<MoeBlock> MoeBlock::make(gpu::GpuBackend& device, const config::ModelConfig& config,
                                const Limits& limits) {
  MoeBlock block;
  block.device_ = &device;
  block.config_ = config;
  block.tokens_ = limits.tokens;
  if (config.experts == 0) return block;
  if (!limits.batch_invariant) MET_TRY(block.plan_few(limits));
  // Kernels for fewer tokens may add in another order.
  for (int tokens = limits.batch_invariant ? limits.tokens : kSmallestPlan;; tokens *= 2) {
    Plans plans;
    plans.tokens = std::min(tokens, limits.tokens);
    MET_ASSIGN(plans.router, ops::cuda::plan_moe_router(device, {.hidden = config.hidden,
                                                                 .experts = config.experts,
                                                                 .top_k = config.experts_per_token,
                                                                 .tokens_max = plans.tokens}));
    MET_TRY(block.plan_products(limits, plans));
    MET_ASSIGN(plans.combine, ops::cuda::plan_moe_combine(device, config.hidden, plans.tokens));
    block.plans_.push_back(plans);
    if (plans.tokens == limits.tokens) return block;
  }
}

Result<> MoeBlock::allocate(std::span<const DecoderLayerWeights> layers, DType weights) {
  if (plans_.empty()) return {};
  MET_ASSIGN(memory_,
             gpu::DeviceMemory::allocate(*device_, buffer_bytes(config_, tokens_, weights), "step buffers"));
  MET_TRY(device_->fill_async(memory_.data(), 0, memory_.bytes(), device_->default_stream()));
  place(config_, tokens_, weights, buffers_);
  Buffers& b = buffers_;
  for (gpu::DevicePtr* at : {&b.normed, &b.logits, &b.finished, &b.begin, &b.tokens, &b.places, &b.weights,
                             &b.choices, &b.gated, &b.y, &b.codes, &b.code_scales})
    at->value += memory_.data().value;
  for (const DecoderLayerWeights& layer : layers) {
    Maps& maps = maps_.emplace_back();
    if (!layer.sparse()) continue;
    for (const Plans& plans : plans_) {
      const ops::cuda::MoeGemmPlan& gate_up = plans.gate_up.of(layer.moe.gate_up);
      const ops::cuda::MoeGemmPlan& down = plans.down.of(layer.moe.down);
      MET_ASSIGN(maps.gate_up[is_wide(gate_up)],
                 ops::cuda::moe_weights_map(gate_up, layer.moe.gate_up.data.data()));
      MET_ASSIGN(maps.down[is_wide(down)], ops::cuda::moe_weights_map(down, layer.moe.down.data.data()));
    }
  }
  return {};
}

MoePairs MoeBlock::pairs() const {
  return {.begin = at_device<std::int32_t>(buffers_.begin),
          .tokens = at_device<std::int32_t>(buffers_.tokens),
          .places = at_device<std::int32_t>(buffers_.places),
          .weights = at_device<float>(buffers_.weights)};
}

const MoeBlock::Plans& MoeBlock::plans_for(std::int64_t tokens) const {
  const auto it = std::ranges::find_if(plans_, [&](const Plans& p) { return p.tokens >= tokens; });
  MET_CHECK(it != plans_.end(), "a step of more tokens than planned");
  return *it;
}

Result<> MoeBlock::route(const Plans& plans, const MoeMatrices& w, const Rows& rows, const RowSquares& norm,
                         gpu::Stream stream) const {
  return ops::cuda::moe_router(plans.router,
                               {.x = at_device<const Bf16Bits>(rows.scaled),
                                .norm = norm,
                                .normed = at_device<Bf16Bits>(buffers_.normed),
                                .router = at_device<const Bf16Bits>(w.router.data),
                                .pairs = pairs(),
                                .choices = at_device<std::int32_t>(buffers_.choices),
                                .counts = at_device<const StepCounts>(rows.counts),
                                .hidden = config_.hidden,
                                .experts = config_.experts,
                                .top_k = config_.experts_per_token,
                                .renormalise = config_.renormalise_experts,
                                .logits = at_device<float>(buffers_.logits),
                                .finished = at_device<std::int32_t>(buffers_.finished)},
                               stream);
}

// From `x` to `codes`, in which `matrix` reads rows.
QuantiseArgs MoeBlock::quantise_args(const DeviceMatrix& matrix, gpu::DevicePtr x, const Rows& rows,
                                     std::int32_t scales_ld) const {
  return {.x = at_device<const Bf16Bits>(x),
          .norm = nullptr,
          .y = at_device<std::uint8_t>(buffers_.codes),
          .scales = at_device<float>(buffers_.code_scales),
          .counts = at_device<const StepCounts>(rows.counts),
          .k = static_cast<std::int32_t>(matrix.k),
          .scales_ld = scales_ld,
          .scale_values = kBlockScaleValues,
          .eps = 0};
}

// The pairs' products, from rows `x` to `y`.
Result<> MoeBlock::multiply(std::size_t layer, const Plans& plans, const MoeMatrices& w, const Rows& rows,
                            gpu::DevicePtr x, gpu::Stream stream) const {
  const auto product = [&](const Product& of, const DeviceMatrix& matrix, const DeviceTensorMap(&maps)[2],
                           ops::cuda::MoeGemmTensors t, int rows_max) -> Result<> {
    const ops::cuda::MoeGemmPlan& plan = of.of(matrix);
    if (is_e4m3(matrix)) {
      t.x_scales_ld = ops::cuda::quantise_scales_ld(rows_max);
      const QuantiseArgs args = quantise_args(matrix, t.x, rows, t.x_scales_ld);
      MET_TRY(device_->launch(t.gathers ? quantise_launch(of.quantise, args)
                                        : quantise_pairs_launch(of.quantise, args, config_.experts_per_token),
                              stream));
      t.x = buffers_.codes;
      t.x_scales = buffers_.code_scales;
    }
    t.weights = maps[is_wide(plan)];
    t.weight_scales = matrix.scales.data();
    t.block_scales = matrix.block_scales;
    return device_->launch(ops::cuda::moe_gemm_launch(plan, t), stream);
  };
  const Maps& maps = maps_[layer];
  const gpu::DevicePtr choices = plans.router.orders ? gpu::DevicePtr{} : buffers_.choices;
  MET_TRY(product(plans.gate_up, w.gate_up, maps.gate_up,
                  {.weights = {},
                   .weight_scales = {},
                   .x = x,
                   .x_scales = {},
                   .pairs = pairs(),
                   .choices = choices,
                   .counts = rows.counts,
                   .y = buffers_.gated,
                   .ldy = config_.expert_ffn,
                   .gathers = true},
                  tokens_));
  return product(plans.down, w.down, maps.down,
                 {.weights = {},
                  .weight_scales = {},
                  .x = buffers_.gated,
                  .x_scales = {},
                  .pairs = pairs(),
                  .choices = choices,
                  .counts = rows.counts,
                  .y = buffers_.y,
                  .ldy = config_.hidden,
                  .gathers = false},
                 tokens_ * config_.experts_per_token);
}

MoeCombineArgs MoeBlock::combine_args(const Rows& rows) const {
  return {.residual = at_device<Bf16Bits>(rows.residual),
          .y = at_device<const Bf16Bits>(buffers_.y),
          .pairs = pairs(),
          .norm = nullptr,
          .normed = nullptr,
          .next_norm = nullptr,
          .scaled = nullptr,
          .squares = nullptr,
          .counts = at_device<const StepCounts>(rows.counts),
          .dim = config_.hidden,
          .top_k = config_.experts_per_token,
          .eps = static_cast<float>(config_.norm_eps)};
}

Result<> MoeBlock::decode(std::size_t layer, int bucket, const MoeMatrices& w, const Rows& rows,
                          RowSquares& norm, gpu::Stream stream) const {
  if (const ops::cuda::MoeFewPlan* few = few_for(bucket, w)) {
    const ops::cuda::MoeFewTensors tensors{.counts = rows.counts,
                                           .x = rows.scaled,
                                           .norm = norm,
                                           .router = w.router.data.data(),
                                           .gate_up = expert_weights(w.gate_up),
                                           .down = expert_weights(w.down),
                                           .normed = buffers_.normed,
                                           .logits = buffers_.logits,
                                           .y = buffers_.gated,
                                           .residual = rows.residual,
                                           .next_norm = rows.next_norm,
                                           .scaled = rows.scaled,
                                           .squares = rows.squares};
    norm.count = few->squares_count();
    return ops::cuda::moe_few(*few, tensors, stream);
  }
  MET_CHECK(bucket <= kDecodeRows, "a decode step of more rows than the buffer of normed rows has room for");
  const Plans& plans = plans_for(bucket);
  MET_TRY(route(plans, w, rows, norm, stream));
  MET_TRY(multiply(layer, plans, w, rows, buffers_.normed, stream));
  MoeCombineArgs args = combine_args(rows);
  args.next_norm = at_device<const float>(rows.next_norm);
  args.scaled = at_device<Bf16Bits>(rows.scaled);
  args.squares = at_device<float>(rows.squares);
  norm.count = 1;
  return device_->launch(moe_combine_launch(plans.combine, args), stream);
}

Result<> MoeBlock::mixed(std::size_t layer, std::int64_t tokens, const MoeMatrices& w, const Rows& rows,
                         gpu::Stream stream) const {
  const Plans& plans = plans_for(tokens);
  MET_TRY(route(plans, w, rows, {}, stream));
  MET_TRY(multiply(layer, plans, w, rows, rows.scaled, stream));
  MoeCombineArgs args = combine_args(rows);
  if (rows.next_norm) {
    args.norm = at_device<const float>(rows.next_norm);
    args.normed = at_device<Bf16Bits>(rows.scaled);
  }
  return device_->launch(moe_combine_launch(plans.combine, args), stream);
}

}  // namespace met::layers::cuda
