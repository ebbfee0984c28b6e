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

ops::cuda::ExpertWeights expert_weights(const DeviceMatrix& matrix) {
  return {.data = matrix.data.data(), .scales = matrix.scales.data(), .block_scales = matrix.block_scales};
}

}  // namespace

// Buffers one after another from address 0; returns where they end.
std::size_t MoeBlock::place(const config::ModelConfig& c, std::int64_t tokens, Buffers& buffers) {
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
  return end;
}

std::size_t MoeBlock::buffer_bytes(const config::ModelConfig& config, std::int64_t tokens) {
  Buffers none;
  return config.experts > 0 ? place(config, tokens, none) : 0;
}

Result<MoeBlock> MoeBlock::make(gpu::GpuBackend& device, const config::ModelConfig& config,
                                const Limits& limits) {
  MoeBlock block;
  block.device_ = &device;
  block.config_ = config;
  block.tokens_ = limits.tokens;
  if (config.experts == 0) return block;
  const Epilogue activation = ops::gated_epilogue(config.activation);
  for (const int bucket : limits.buckets) {
    const ops::cuda::MoeFewShape shape{.hidden = config.hidden,
                                       .width = config.expert_ffn,
                                       .experts = config.experts,
                                       .top_k = config.experts_per_token,
                                       .tokens = bucket,
                                       .renormalise = config.renormalise_experts,
                                       .activation = activation};
    if (limits.batch_invariant || !fits_moe_few(shape)) break;
    MET_ASSIGN(block.few_.emplace_back(), ops::cuda::plan_moe_few(device, shape));
  }
  // Kernels for fewer tokens may add in another order.
  for (int tokens = limits.batch_invariant ? limits.tokens : kSmallestPlan;; tokens *= 2) {
    Plans plans;
    plans.tokens = std::min(tokens, limits.tokens);
    MET_ASSIGN(plans.router, ops::cuda::plan_moe_router(device, {.hidden = config.hidden,
                                                                 .experts = config.experts,
                                                                 .top_k = config.experts_per_token,
                                                                 .tokens_max = plans.tokens}));
    const auto plan = [&](std::int64_t n, std::int64_t k, Epilogue epilogue) {
      return ops::cuda::plan_moe_gemm(device, {.n = n,
                                               .k = k,
                                               .experts = config.experts,
                                               .top_k = config.experts_per_token,
                                               .tokens = plans.tokens,
                                               .epilogue = epilogue});
    };
    MET_ASSIGN(plans.gate_up, plan(std::int64_t{2} * config.expert_ffn, config.hidden, activation));
    MET_ASSIGN(plans.down, plan(config.hidden, config.expert_ffn, Epilogue::kStore));
    MET_ASSIGN(plans.combine, ops::cuda::plan_moe_combine(device, config.hidden, plans.tokens));
    block.plans_.push_back(plans);
    if (plans.tokens == limits.tokens) return block;
  }
}

Result<> MoeBlock::allocate(std::span<const DecoderLayerWeights> layers) {
  if (plans_.empty()) return {};
  MET_ASSIGN(memory_, gpu::DeviceMemory::allocate(*device_, buffer_bytes(config_, tokens_), "step buffers"));
  MET_TRY(device_->fill_async(memory_.data(), 0, memory_.bytes(), device_->default_stream()));
  place(config_, tokens_, buffers_);
  Buffers& b = buffers_;
  for (gpu::DevicePtr* at : {&b.normed, &b.logits, &b.finished, &b.begin, &b.tokens, &b.places, &b.weights,
                             &b.choices, &b.gated, &b.y})
    at->value += memory_.data().value;
  for (const DecoderLayerWeights& layer : layers) {
    Maps& maps = maps_.emplace_back();
    if (!layer.sparse()) continue;
    for (const Plans& plans : plans_) {
      const std::size_t wide = plans.gate_up.rows == kWideRows ? 1 : 0;
      MET_ASSIGN(maps.gate_up[wide],
                 ops::cuda::moe_weights_map(plans.gate_up, layer.moe.gate_up.data.data()));
      MET_ASSIGN(maps.down[wide], ops::cuda::moe_weights_map(plans.down, layer.moe.down.data.data()));
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

// The pairs' products, from rows `x` to `y`.
Result<> MoeBlock::multiply(std::size_t layer, const Plans& plans, const Rows& rows, gpu::DevicePtr x,
                            gpu::Stream stream) const {
  const std::size_t wide = plans.gate_up.rows == kWideRows ? 1 : 0;
  const gpu::DevicePtr choices = plans.router.orders ? gpu::DevicePtr{} : buffers_.choices;
  MET_TRY(device_->launch(ops::cuda::moe_gemm_launch(plans.gate_up, {.weights = maps_[layer].gate_up[wide],
                                                                     .x = x,
                                                                     .pairs = pairs(),
                                                                     .choices = choices,
                                                                     .counts = rows.counts,
                                                                     .y = buffers_.gated,
                                                                     .ldy = config_.expert_ffn,
                                                                     .gathers = true}),
                          stream));
  return device_->launch(ops::cuda::moe_gemm_launch(plans.down, {.weights = maps_[layer].down[wide],
                                                                 .x = buffers_.gated,
                                                                 .pairs = pairs(),
                                                                 .choices = choices,
                                                                 .counts = rows.counts,
                                                                 .y = buffers_.y,
                                                                 .ldy = config_.hidden,
                                                                 .gathers = false}),
                         stream);
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
  const auto few = std::ranges::find_if(
      few_, [&](const ops::cuda::MoeFewPlan& plan) { return plan.shape.tokens >= bucket; });
  if (few != few_.end()) {
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
  MET_TRY(multiply(layer, plans, rows, buffers_.normed, stream));
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
  MET_TRY(multiply(layer, plans, rows, rows.scaled, stream));
  MoeCombineArgs args = combine_args(rows);
  if (rows.next_norm) {
    args.norm = at_device<const float>(rows.next_norm);
    args.normed = at_device<Bf16Bits>(rows.scaled);
  }
  return device_->launch(moe_combine_launch(plans.combine, args), stream);
}

}  // namespace met::layers::cuda
