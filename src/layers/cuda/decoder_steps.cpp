// What a step enqueues.
#include <algorithm>

#include "layers/cuda/decoder.h"
#include "layers/cuda/device_pointer.h"

namespace met::layers::cuda {

namespace {
constexpr std::size_t kBf16Bytes = 2;
}  // namespace

ResidualNormArgs Decoder::norm_args(const StepLayout& at) const {
  return {.residual = at_device<Bf16Bits>(tensors_.hidden),
          .branch = nullptr,
          .post_norm = nullptr,
          .norm = nullptr,
          .normed = nullptr,
          .next_norm = nullptr,
          .scaled = nullptr,
          .squares = nullptr,
          .gather = nullptr,
          .counts = at_device<const StepCounts>(inputs_, at.counts),
          .dim = config_.hidden,
          .eps = static_cast<float>(config_.norm_eps)};
}

Result<> Decoder::embed(const ops::cuda::EmbeddingDevicePlan& plan, const StepLayout& at,
                        const gpu::DeviceMemory* next_norm, gpu::Stream stream) const {
  return ops::cuda::embedding_device(
      plan,
      {.ids = at_device<const std::int32_t>(inputs_, at.ids),
       .device_rows = at_device<const std::int32_t>(inputs_, at.device_rows),
       .fed = at_device<const std::int32_t>(fed_),
       .table = at_device<const Bf16Bits>(weights_.embedding.data),
       .hidden = at_device<Bf16Bits>(tensors_.hidden),
       .next_norm = next_norm != nullptr ? at_device<const float>(*next_norm) : nullptr,
       .scaled = at_device<Bf16Bits>(tensors_.scaled),
       .squares = at_device<float>(tensors_.squares),
       .counts = at_device<const StepCounts>(inputs_, at.counts),
       .dim = config_.hidden,
       .vocabulary = config_.vocabulary,
       .scale = static_cast<float>(config_.embedding_scale)},
      stream);
}

// ---- decode ----

Result<> Decoder::decode_attention(std::size_t layer, const ops::cuda::DecodeAttentionPlan& plan,
                                   const CodedRows& coded, const StepLayout& at, gpu::Stream stream) const {
  return ops::cuda::decode_attention(plan,
                                     {.k_map = prefill_args_[layer].k_map,
                                      .v_map = prefill_args_[layer].v_map,
                                      .layer = attention_args(layer),
                                      .qkv = at_device<const Bf16Bits>(tensors_.qkv),
                                      .y = at_device<Bf16Bits>(tensors_.attention),
                                      .coded = coded,
                                      .rows = at_device<const StepRow>(inputs_, at.rows),
                                      .block_table = at_device<const std::int32_t>(inputs_, at.block_table),
                                      .counts = at_device<const StepCounts>(inputs_, at.counts),
                                      .partial = at_device<float>(tensors_.partial),
                                      .finished = at_device<std::int32_t>(tensors_.finished),
                                      .splits = 0},
                                     stream);
}

CodedRows Decoder::coded_rows(gpu::DevicePtr buffer, std::int64_t width, const DecodeProduct& reader) {
  if (!reader.reads_coded()) return {};
  const auto codes = static_cast<std::size_t>(ops::cuda::kProjectionTokensE4m3 * width);
  return {.codes = at_device<std::uint8_t>(buffer),
          .scales = at_device<float>(buffer, codes),
          .width = static_cast<std::int32_t>(width),
          .rows = reader.projection->columns};
}

Result<> Decoder::decode_product(const DecodeInput& in, ops::cuda::ProjectionTensors to, const StepLayout& at,
                                 gpu::Stream stream) const {
  if (in.plan.projection) {
    to.weights = in.matrix.data.data();
    to.x = in.x;
    if (in.plan.reads_coded()) {
      const CodedRows rows = coded_rows(in.codes, in.matrix.k, in.plan);
      if (!in.coded) MET_TRY(code_rows(in.plan.quantise, in.x, rows, at, stream));
      to.x = in.codes;
      to.x_scales = {reinterpret_cast<std::uintptr_t>(rows.scales)};
    }
    to.counts = inputs_ + at.counts;
    to.weight_scales = in.matrix.scales.data();
    to.bias = in.matrix.bias.data();
    return ops::cuda::projection(*in.plan.projection, to, stream);
  }
  MET_TRY(quantise_rows(in.plan.quantise, in.x, nullptr, in.matrix, at, stream));
  GemmArgs args = gemm_args(in.matrix, in.weights, in.rows, at);
  args.residual = at_device<Bf16Bits>(to.residual);
  args.y = at_device<Bf16Bits>(to.y);
  args.ldy = to.ldy;
  args.epilogue = in.plan.gemm->shape.epilogue;
  args.norm = to.norm;
  args.next_norm = at_device<const float>(to.next_norm);
  args.scaled = at_device<Bf16Bits>(to.scaled);
  args.squares = at_device<float>(to.squares);
  return ops::cuda::gemm(*in.plan.gemm, args, stream);
}

// A block's output joins the residual stream; the input of the norm `next` is made, which `hidden` then describes.
Result<> Decoder::decode_join(const DecodeInput& in, const gpu::DeviceMemory& post_norm,
                              const DecodeNext& next, const DecodePlans& plans, const StepLayout& at,
                              Hidden& hidden, gpu::Stream stream) const {
  ops::cuda::ProjectionTensors to{.ldy = config_.hidden};
  hidden.coded = false;
  if (!config_.post_norms) {
    to.residual = tensors_.hidden;
    to.next_norm = next.norm.data();
    if (in.plan.writes_coded() && next.reader != nullptr)
      to.coded = coded_rows(tensors_.coded_hidden, config_.hidden, *next.reader);
    hidden.coded = to.coded.codes != nullptr;
    if (!hidden.coded) to.scaled = tensors_.scaled;
    to.squares = tensors_.squares;
    hidden.norm.count = in.plan.squares_count();
    return decode_product(in, to, at, stream);
  }
  to.y = tensors_.branch;
  MET_TRY(decode_product(in, to, at, stream));
  hidden.norm.count = 1;
  ResidualNormArgs args = norm_args(at);
  args.branch = at_device<const Bf16Bits>(tensors_.branch);
  args.post_norm = at_device<const float>(post_norm);
  args.next_norm = at_device<const float>(next.norm);
  args.scaled = at_device<Bf16Bits>(tensors_.scaled);
  args.squares = at_device<float>(tensors_.squares);
  return ops::cuda::residual_norm(plans.norm, args, stream);
}

MoeBlock::Rows Decoder::moe_rows(const StepLayout& at, const gpu::DeviceMemory* next_norm) const {
  return {.counts = inputs_ + at.counts,
          .residual = tensors_.hidden,
          .scaled = tensors_.scaled,
          .squares = tensors_.squares,
          .next_norm = next_norm != nullptr ? next_norm->data() : gpu::DevicePtr{}};
}

// `hidden` describes the residual stream's rows on entry, and again behind the layer.
Result<> Decoder::decode_layer(std::size_t layer, const DecodePlans& plans, bool brief, const StepLayout& at,
                               Hidden& hidden, gpu::Stream stream) const {
  const DecoderLayerWeights& w = weights_.layers[layer];
  const LayerMaps& maps = maps_[layer];
  const DecodeProduct& out = plans.out.of(w.out);
  MET_TRY(decode_product({plans.qkv.of(w.qkv), w.qkv, maps.qkv, tensors_.scaled, hidden_map_,
                          tensors_.coded_hidden, hidden.coded},
                         {.norm = hidden.norm, .y = tensors_.qkv, .ldy = w.qkv.n}, at, stream));
  CodedRows attention;
  if (config_.head_dim % ops::cuda::kScaleValues == 0)
    attention = coded_rows(tensors_.coded_attention, w.out.k, out);
  MET_TRY(decode_attention(layer, brief ? *plans.brief_attention : plans.attention, attention, at, stream));
  MET_TRY(decode_join({out, w.out, maps.out, tensors_.attention, attention_map_, tensors_.coded_attention,
                       attention.codes != nullptr},
                      w.post_attention_norm,
                      {w.ffn_norm, w.sparse() ? nullptr : &plans.gate_up.of(w.gate_up)}, plans, at, hidden,
                      stream));
  if (w.sparse())
    return moe_->decode(layer, plans.bucket, w.moe, moe_rows(at, &next_norm(layer)), hidden.norm, stream);
  const DecodeProduct& gate_up = plans.gate_up.of(w.gate_up);
  const DecodeProduct& down = plans.down.of(w.down);
  CodedRows ffn;
  if (gate_up.writes_coded()) ffn = coded_rows(tensors_.coded_ffn, config_.ffn, down);
  MET_TRY(decode_product(
      {gate_up, w.gate_up, maps.gate_up, tensors_.scaled, hidden_map_, tensors_.coded_hidden, hidden.coded},
      {.norm = hidden.norm, .y = tensors_.ffn, .coded = ffn, .ldy = config_.ffn}, at, stream));
  const bool last = layer + 1 == weights_.layers.size();
  return decode_join(
      {down, w.down, maps.down, tensors_.ffn, ffn_map_, tensors_.coded_ffn, ffn.codes != nullptr},
      w.post_ffn_norm, {next_norm(layer), last ? nullptr : &plans.qkv.of(weights_.layers[layer + 1].qkv)},
      plans, at, hidden, stream);
}

bool Decoder::has_brief(int bucket) const {
  return splits_norms(bucket) && plans_for(bucket).brief_attention.has_value();
}

Result<> Decoder::decode(int bucket, bool brief, gpu::Stream stream) const {
  if (!splits_norms(bucket))
    return mixed({.capacity = {bucket, bucket, bucket},
                  .decode_rows = !limits_.batch_invariant,
                  .prefill_rows = limits_.batch_invariant},
                 stream);
  const StepLayout at({bucket, bucket, bucket});
  const DecodePlans& plans = plans_for(bucket);
  MET_TRY(embed(plans.embedding, at, &weights_.layers.front().attention_norm, stream));
  Hidden hidden{.norm = {.parts = at_device<float>(tensors_.squares),
                         .count = 1,
                         .eps = static_cast<float>(config_.norm_eps)}};
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer)
    MET_TRY(decode_layer(layer, plans, brief, at, hidden, stream));
  return ops::cuda::projection(head_plan(bucket),
                               {.weights = weights_.head_matrix().data.data(),
                                .x = tensors_.scaled,
                                .counts = inputs_ + at.counts,
                                .norm = hidden.norm,
                                .y = tensors_.logits,
                                .ldy = config_.vocabulary,
                                .logits = true,
                                .y_f32 = true},
                               stream);
}

// ---- steps with prefill rows ----

Result<> Decoder::prefill_attention(std::size_t layer, const Mixed& step, const PrefillPlans& plans,
                                    const StepLayout& at, gpu::Stream stream) const {
  if (step.decode_rows)
    MET_TRY(
        decode_attention(layer, plans_for(static_cast<int>(step.capacity.rows)).attention, {}, at, stream));
  if (!step.prefill_rows) return {};
  MET_TRY(ops::cuda::rope_kv(plans.rope_kv,
                             {.layer = attention_args(layer),
                              .qkv = at_device<Bf16Bits>(tensors_.qkv),
                              .positions = at_device<const std::int32_t>(inputs_, at.positions),
                              .slots = at_device<const std::int32_t>(inputs_, at.slots),
                              .counts = at_device<const StepCounts>(inputs_, at.counts)},
                             stream));
  PrefillAttentionArgs args = prefill_args_[layer];
  args.rows = at_device<const StepRow>(inputs_, at.rows);
  args.block_table = at_device<const std::int32_t>(inputs_, at.block_table);
  args.counts = at_device<const StepCounts>(inputs_, at.counts);
  return ops::cuda::prefill_attention(prefill_attention_, args, stream);
}

GemmArgs Decoder::gemm_args(const DeviceMatrix& matrix, const DeviceTensorMap& weights, const RowMaps& x,
                            const StepLayout& at) const {
  const bool codes = matrix.type == DType::kF8E4M3;
  GemmArgs args{};
  args.weights = weights;
  args.x = codes ? x.e4m3 : x.bf16;
  args.counts = at_device<const StepCounts>(inputs_, at.counts);
  args.weight_scales = at_device<const float>(matrix.scales);
  args.x_scales = codes ? at_device<const float>(tensors_.row_scales) : nullptr;
  args.x_scales_ld = codes ? scales_ld_ : 0;
  args.bias = at_device<const float>(matrix.bias);
  args.n = static_cast<std::int32_t>(matrix.n);
  args.k = static_cast<std::int32_t>(matrix.k);
  args.block_scales = matrix.block_scales;
  return args;
}

Result<> Decoder::multiply(const Product& p, const StepLayout& at, gpu::Stream stream) const {
  GemmArgs args = gemm_args(p.matrix, p.weights, p.x, at);
  (p.epilogue == Epilogue::kResidual ? args.residual : args.y) = at_device<Bf16Bits>(p.y);
  args.ldy = p.width;
  args.epilogue = p.epilogue;
  return ops::cuda::gemm(p.plans.of(p.matrix), args, stream);
}

// E4M3 weights read E4M3 rows; BF16 weights read `x` itself.
Result<> Decoder::quantise_rows(const ops::cuda::QuantisePlan& plan, gpu::DevicePtr x,
                                const gpu::DeviceMemory* norm, const DeviceMatrix& matrix,
                                const StepLayout& at, gpu::Stream stream) const {
  if (matrix.type == DType::kBF16) return {};
  return ops::cuda::quantise(plan,
                             {.x = at_device<const Bf16Bits>(x),
                              .norm = norm != nullptr ? at_device<const float>(*norm) : nullptr,
                              .y = at_device<std::uint8_t>(tensors_.quantised),
                              .scales = at_device<float>(tensors_.row_scales),
                              .counts = at_device<const StepCounts>(inputs_, at.counts),
                              .k = static_cast<std::int32_t>(matrix.k),
                              .scales_ld = scales_ld_,
                              .scale_values = ops::cuda::gemm_scale_values(matrix.block_scales),
                              .eps = static_cast<float>(config_.norm_eps)},
                             stream);
}

// Rows `x` as a decode projection with E4M3 weights reads them.
Result<> Decoder::code_rows(const ops::cuda::QuantisePlan& plan, gpu::DevicePtr x, const CodedRows& to,
                            const StepLayout& at, gpu::Stream stream) const {
  return ops::cuda::quantise(plan,
                             {.x = at_device<const Bf16Bits>(x),
                              .norm = nullptr,
                              .y = to.codes,
                              .scales = to.scales,
                              .counts = at_device<const StepCounts>(inputs_, at.counts),
                              .k = to.width,
                              .scales_ld = to.rows,
                              .scale_values = ops::cuda::kScaleValues,
                              .eps = 0},
                             stream);
}

// The rows that `next.matrix` reads.
Result<> Decoder::norm_rows(const NormFor& next, const PrefillPlans& plans, const StepLayout& at,
                            gpu::Stream stream) const {
  if (next.matrix.type == DType::kF8E4M3)
    return quantise_rows(plans.quantise_hidden, tensors_.hidden, &next.norm, next.matrix, at, stream);
  ResidualNormArgs args = norm_args(at);
  args.norm = at_device<const float>(next.norm);
  args.normed = at_device<Bf16Bits>(tensors_.scaled);
  return ops::cuda::residual_norm(plans.norm, args, stream);
}

// Behind a block: its post-norm where it has one, and the norm that the next block reads.
Result<> Decoder::mixed_join(const gpu::DeviceMemory& post_norm, const NormFor* next,
                             const PrefillPlans& plans, const StepLayout& at, gpu::Stream stream) const {
  if (config_.post_norms) {
    const bool normed = next != nullptr && next->matrix.type == DType::kBF16;
    ResidualNormArgs args = norm_args(at);
    args.branch = at_device<const Bf16Bits>(tensors_.branch);
    args.post_norm = at_device<const float>(post_norm);
    if (normed) {
      args.norm = at_device<const float>(next->norm);
      args.normed = at_device<Bf16Bits>(tensors_.scaled);
    }
    MET_TRY(ops::cuda::residual_norm(plans.norm, args, stream));
    if (normed) return {};
  }
  return next != nullptr ? norm_rows(*next, plans, at, stream) : Result<>{};
}

// The block norms the next layer's rows, unless that one reads codes.
Result<> Decoder::mixed_moe(std::size_t layer, const Mixed& step, const PrefillPlans& plans,
                            const StepLayout& at, gpu::Stream stream) const {
  const bool last = layer + 1 == weights_.layers.size();
  const bool codes = !last && weights_.layers[layer + 1].qkv.type == DType::kF8E4M3;
  const gpu::DeviceMemory* norm = last || codes ? nullptr : &next_norm(layer);
  MET_TRY(moe_->mixed(layer, step.capacity.tokens, weights_.layers[layer].moe, moe_rows(at, norm), stream));
  if (!codes) return {};
  return norm_rows({next_norm(layer), weights_.layers[layer + 1].qkv}, plans, at, stream);
}

Result<> Decoder::mixed_layer(std::size_t layer, const Mixed& step, const PrefillPlans& plans,
                              const StepLayout& at, gpu::Stream stream) const {
  const DecoderLayerWeights& w = weights_.layers[layer];
  const LayerMaps& maps = maps_[layer];
  const Epilogue join = config_.post_norms ? Epilogue::kStore : Epilogue::kResidual;
  const gpu::DevicePtr joined = config_.post_norms ? tensors_.branch : tensors_.hidden;
  const bool last = layer + 1 == weights_.layers.size();
  MET_TRY(multiply({plans.qkv, w.qkv, maps.qkv, hidden_map_, tensors_.qkv, w.qkv.n}, at, stream));
  MET_TRY(prefill_attention(layer, step, plans, at, stream));
  MET_TRY(quantise_rows(plans.quantise_attention, tensors_.attention, nullptr, w.out, at, stream));
  MET_TRY(multiply({plans.out, w.out, maps.out, attention_map_, joined, config_.hidden, join}, at, stream));
  const NormFor to_ffn{w.ffn_norm, w.gate_up};
  MET_TRY(mixed_join(w.post_attention_norm, &to_ffn, plans, at, stream));
  if (w.sparse()) return mixed_moe(layer, step, plans, at, stream);
  MET_TRY(
      multiply({plans.gate_up, w.gate_up, maps.gate_up, hidden_map_, tensors_.ffn, config_.ffn, w.activation},
               at, stream));
  MET_TRY(quantise_rows(plans.quantise_ffn, tensors_.ffn, nullptr, w.down, at, stream));
  MET_TRY(multiply({plans.down, w.down, maps.down, ffn_map_, joined, config_.hidden, join}, at, stream));
  if (last) return mixed_join(w.post_ffn_norm, nullptr, plans, at, stream);
  const NormFor to_next{next_norm(layer), weights_.layers[layer + 1].qkv};
  return mixed_join(w.post_ffn_norm, &to_next, plans, at, stream);
}

// The wanted rows alone are normed and multiplied.
Result<> Decoder::mixed_head(const Mixed& step, const StepLayout& at, gpu::Stream stream) const {
  const std::int64_t logits = step.capacity.logits;
  if (logits == 0) return {};
  ResidualNormArgs args = norm_args(at);
  args.norm = at_device<const float>(weights_.final_norm);
  args.normed = at_device<Bf16Bits>(tensors_.head_input);
  args.gather = at_device<const std::int32_t>(inputs_, at.logit_rows);
  MET_TRY(ops::cuda::residual_norm(prefill_plans(logits).norm, args, stream));
  for (std::int64_t begin = 0, run = 0; begin < logits; begin += kHeadRows, ++run) {
    const auto skipped = static_cast<std::size_t>(begin);
    MET_TRY(ops::cuda::projection(
        head_plan(std::min(kHeadRows, logits - begin)),
        {.weights = weights_.head_matrix().data.data(),
         .x = tensors_.head_input + skipped * static_cast<std::size_t>(config_.hidden) * kBf16Bytes,
         .counts = inputs_ + at.head_counts + static_cast<std::size_t>(run) * sizeof(StepCounts),
         .y = tensors_.logits + skipped * static_cast<std::size_t>(config_.vocabulary) * sizeof(float),
         .ldy = config_.vocabulary,
         .logits = true,
         .y_f32 = true},
        stream));
  }
  return {};
}

Result<> Decoder::mixed(const Mixed& step, gpu::Stream stream) const {
  const StepLayout at(step.capacity);
  const PrefillPlans& plans = prefill_plans(step.capacity.tokens);
  MET_TRY(embed(plans.embedding, at, nullptr, stream));
  MET_TRY(
      norm_rows({weights_.layers.front().attention_norm, weights_.layers.front().qkv}, plans, at, stream));
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer)
    MET_TRY(mixed_layer(layer, step, plans, at, stream));
  return mixed_head(step, at, stream);
}

}  // namespace met::layers::cuda
