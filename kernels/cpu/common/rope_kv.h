// Heads of q and k normalised and rotated, k and v written to the paged cache (layout:
// src/ops/attention/attention.h). A token is one thread's work.
#pragma once

#include "activations.h"
#include "kv_cache.h"
#include "met/cpu_kernel.h"
#include "met/ops.h"
#include "sizes.h"

namespace {

constexpr int kHeadDimMax = 256;

struct Rotation {
  alignas(64) float cosine[kHeadDimMax / 2];
  alignas(64) float sine[kHeadDimMax / 2];
};

/// Cosine and sine of position * inv_freq, the product rounded to f32 as reference implementations do.
/// Reduction to |r| <= pi / 4 and Taylor polynomials in f64: exact to f32 for positions up to 2^30.
void rotation_of(const met::RopeKvArgs& args, std::int32_t position, Rotation& out) {
  constexpr double kRound = 0x1.8p52;  // adding and subtracting it rounds to an integer
  const int pairs = args.rotary_dim / 2;
  for (int i = 0; i < pairs; ++i) {
    const double angle = static_cast<double>(static_cast<float>(position) * args.inv_freq[i]);
    const double shifted = angle * 0x1.45f306dc9c883p-1 + kRound;  // 2 / pi
    const double n = shifted - kRound;
    const double r = (angle - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34;
    const double r2 = r * r;
    const double s =
        r * (1.0 + r2 * (-1.0 / 6 + r2 * (1.0 / 120 + r2 * (-1.0 / 5040 + r2 * (1.0 / 362880)))));
    const double c =
        1.0 + r2 * (-0.5 + r2 * (1.0 / 24 + r2 * (-1.0 / 720 + r2 * (1.0 / 40320 - r2 / 3628800))));
    const auto quadrant = static_cast<std::uint32_t>(__builtin_bit_cast(std::uint64_t, shifted));
    const bool odd = (quadrant & 1U) != 0;
    const double sine = odd ? c : s;
    const double cosine = odd ? s : c;
    out.sine[i] = static_cast<float>((quadrant & 2U) != 0 ? -sine : sine) * args.rope_scale;
    out.cosine[i] = static_cast<float>(((quadrant + 1) & 2U) != 0 ? -cosine : cosine) * args.rope_scale;
  }
}

void rotate(const met::RopeKvArgs& args, const Rotation& by, float* head) {
  const int pairs = args.rotary_dim / 2;
  const int step = args.interleaved != 0 ? 2 : 1;
  const int other = args.interleaved != 0 ? 1 : pairs;
  for (int i = 0; i < pairs; ++i) {
    const float a = head[i * step];
    const float b = head[i * step + other];
    head[i * step] = a * by.cosine[i] - b * by.sine[i];
    head[i * step + other] = b * by.cosine[i] + a * by.sine[i];
  }
}

void norm_and_rotate(const met::RopeKvArgs& args, const float* norm, const Rotation& by, float* head) {
  if (norm != nullptr) {
    const float scale = activations::inverse_rms(head, head_dim(args), args.norm_eps);
    for (int i = 0; i < head_dim(args); ++i) head[i] = head[i] * scale * (norm[i] + args.norm_offset);
  }
  if (args.inv_freq != nullptr) rotate(args, by, head);
}

void process_token(const met::RopeKvArgs& args, const met::StepRow& row, std::int32_t t) {
  const int dim = head_dim(args);
  const std::int32_t position = row.position + (t - row.token_begin);
  Rotation by;
  if (args.inv_freq != nullptr) rotation_of(args, position, by);
  float* qkv = args.qkv + std::int64_t{t} * (args.heads + 2 * args.kv_heads) * dim;
  for (int h = 0; h < args.heads; ++h) norm_and_rotate(args, args.q_norm, by, qkv + h * dim);

  const std::int64_t block = args.block_table[row.table_begin + position / kKvBlockTokens];
  const int slot = position % kKvBlockTokens;
  const std::int64_t base = block * args.kv_heads * kv_head_elements(dim);
  auto* k_cache = static_cast<KvElement*>(args.k_cache) + base;
  auto* v_cache = static_cast<KvElement*>(args.v_cache) + base;
  for (int h = 0; h < args.kv_heads; ++h) {
    float* k = qkv + (args.heads + h) * dim;
    norm_and_rotate(args, args.k_norm, by, k);
    KvElement stored[kHeadDimMax];
    KvElement* const k_head = k_cache + h * kv_head_elements(dim);
    KvElement* const v_head = v_cache + h * kv_head_elements(dim);
    const float k_scale = store_kv(k, dim, 1.0F / args.k_scale, stored);
    for (int d = 0; d < dim; ++d) k_head[d * kKvBlockTokens + slot] = stored[d];
    const float* const v = qkv + (args.heads + args.kv_heads + h) * dim;
    const float v_scale = store_kv(v, dim, 1.0F / args.v_scale, v_head + slot * dim);
    if constexpr (kKvScaled) {
      kv_scales(k_head, dim)[slot] = k_scale;
      kv_scales(v_head, dim)[slot] = v_scale;
    }
  }
}

void rope_and_store(const met::RopeKvArgs& args, const MetCpuContext* ctx) {
  // Sixteen tokens at a time: neighbours write the same cache lines of K.
  const std::int32_t tokens = args.counts->tokens;
  const std::int32_t chunk = tokens >= kKvBlockTokens * ctx->threads ? kKvBlockTokens : 1;
  std::int32_t row = 0;
  for (;;) {
    const std::int64_t begin = met_next(ctx, chunk);
    if (begin >= tokens) return;
    const auto end = static_cast<std::int32_t>(begin + chunk < tokens ? begin + chunk : tokens);
    for (auto t = static_cast<std::int32_t>(begin); t < end; ++t) {
      while (t >= args.step_rows[row].token_begin + args.step_rows[row].tokens) ++row;
      process_token(args, args.step_rows[row], t);
    }
  }
}

}  // namespace
