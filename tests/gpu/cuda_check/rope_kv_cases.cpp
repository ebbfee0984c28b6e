// Inputs and FP64 oracle of head norms, rotation and cache write.
#include <algorithm>
#include <cmath>

#include "ops/cuda/rope_kv.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

constexpr std::uint16_t kInfinity = 0x7f80;  // rows that nobody may read
constexpr int kBlockTokens = 16;
constexpr float kEps = 1e-6F;
constexpr float kRopeScale = 1.25F;
constexpr float kKScale = 0.03F;
constexpr float kVScale = 0.5F;

struct RopeShape {
  int decode_rows, tokens, tokens_max, heads, kv_heads, head_dim, rotary_dim;
  bool interleaved, norms;
  DType cache = DType::kBF16;
  int position_step = 1;
};

/// The case's tensors as the oracle sees them.
struct Inputs {
  std::vector<std::uint16_t> qkv;
  std::vector<float> q_norm, k_norm, inverse;
  std::vector<std::int32_t> positions, slots;
  std::int64_t row, cache_values;
};

Inputs inputs_of(const RopeShape& s) {
  Rng rng{static_cast<std::uint64_t>(s.tokens * 7 + s.rotary_dim)};
  Inputs in;
  in.row = static_cast<std::int64_t>(s.heads + 2 * s.kv_heads) * s.head_dim;
  in.qkv = random_bf16(rng, static_cast<std::size_t>(s.tokens_max * in.row), 3.0);
  for (int t = 0; t < s.tokens_max; ++t)
    if (t < s.decode_rows || t >= s.tokens) std::fill_n(in.qkv.begin() + t * in.row, in.row, kInfinity);
  for (int i = 0; i < s.head_dim; ++i) {
    in.q_norm.push_back(static_cast<float>(rng.uniform(0.5, 2.0)));
    in.k_norm.push_back(static_cast<float>(rng.uniform(-2.0, 2.0)));
  }
  for (int i = 0; i < s.rotary_dim / 2; ++i)
    in.inverse.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / s.rotary_dim)));
  const int blocks = (s.tokens_max + kBlockTokens - 1) / kBlockTokens + 2;
  for (int t = 0; t < s.tokens_max; ++t) {
    in.positions.push_back(t * s.position_step + 3);
    // Blocks in reverse; the second token of the prefill part has no slot.
    in.slots.push_back(
        t == s.decode_rows + 1 ? -1 : (blocks - 1 - t / kBlockTokens) * kBlockTokens + t % kBlockTokens);
  }
  in.cache_values = static_cast<std::int64_t>(blocks) * s.kv_heads * kBlockTokens * s.head_dim;
  return in;
}

void normalise(std::span<double> head, const std::vector<float>& weights) {
  double sum = 0;
  for (const double v : head) sum += v * v;
  const double scale = 1.0 / std::sqrt(sum / static_cast<double>(head.size()) + static_cast<double>(kEps));
  for (std::size_t i = 0; i < head.size(); ++i) head[i] *= scale * static_cast<double>(weights[i]);
}

void rotate(std::span<double> head, const RopeShape& s, float position, const std::vector<float>& inverse) {
  const int half = s.rotary_dim / 2;
  for (int i = 0; i < half; ++i) {
    double& a = head[static_cast<std::size_t>(s.interleaved ? 2 * i : i)];
    double& b = head[static_cast<std::size_t>(s.interleaved ? 2 * i + 1 : i + half)];
    const double angle = static_cast<double>(position * inverse[static_cast<std::size_t>(i)]);
    const double was = a;
    a = (was * std::cos(angle) - b * std::sin(angle)) * static_cast<double>(kRopeScale);
    b = (b * std::cos(angle) + was * std::sin(angle)) * static_cast<double>(kRopeScale);
  }
}

/// Fills what qkv, the K cache and the V cache hold afterwards.
void oracle(const RopeShape& s, const Inputs& in, std::span<Output> outputs) {
  outputs[0].want = values_of(in.qkv);
  outputs[1].want.assign(static_cast<std::size_t>(in.cache_values), 0.0);
  outputs[2].want = outputs[1].want;
  for (int t = s.decode_rows; t < s.tokens; ++t) {
    const auto at = static_cast<std::size_t>(t);
    for (int h = 0; h < s.heads + 2 * s.kv_heads; ++h) {
      double* begin = outputs[0].want.data() + t * in.row + static_cast<std::int64_t>(h) * s.head_dim;
      std::vector<double> head(begin, begin + s.head_dim);
      const bool value = h >= s.heads + s.kv_heads;
      if (s.norms && !value) normalise(head, h < s.heads ? in.q_norm : in.k_norm);
      if (!value) rotate(head, s, static_cast<float>(in.positions[at]), in.inverse);
      if (h < s.heads) std::ranges::copy(head, begin);
      if (h < s.heads || in.slots[at] < 0) continue;
      const int kv_head = h - s.heads - (value ? s.kv_heads : 0);
      const std::int64_t line =
          (static_cast<std::int64_t>(in.slots[at] / kBlockTokens) * s.kv_heads + kv_head) * kBlockTokens +
          in.slots[at] % kBlockTokens;
      const bool e4m3 = s.cache == DType::kF8E4M3;
      const double scale = e4m3 ? static_cast<double>(value ? kVScale : kKScale) : 1.0;
      for (int i = 0; i < s.head_dim; ++i)
        outputs[value ? 2 : 1].want[static_cast<std::size_t>(line * s.head_dim + i)] =
            e4m3 ? std::clamp(head[static_cast<std::size_t>(i)] / scale, -448.0, 448.0)
                 : head[static_cast<std::size_t>(i)];
    }
  }
}

Result<OpCase> rope_kv(GpuBackend& gpu, const RopeShape& s, bool timed) {
  const Inputs in = inputs_of(s);
  const bool e4m3 = s.cache == DType::kF8E4M3;
  const Tolerance bf16{"one BF16 rounding, FP32 rotation", kBf16Rounding,
                       0x1p-17};  // a cos - b sin may cancel
  const Tolerance fp8{"one E4M3 rounding", 0x1p-4 + 0x1p-12, 0x1p-10 + 0x1p-12};
  const std::vector<std::byte> cache(static_cast<std::size_t>(in.cache_values) * (e4m3 ? 1 : 2));
  const StepCounts counts{s.tokens, 0, 0, s.decode_rows};
  OpCase op{.op = std::string("rope_kv ") + (e4m3 ? "e4m3" : "bf16"),
            .shape = std::to_string(s.tokens - s.decode_rows) + "x(" + std::to_string(s.heads) + "+2*" +
                     std::to_string(s.kv_heads) + ")x" + std::to_string(s.head_dim) +
                     (s.interleaved ? " pairs" : " halves") + (s.norms ? " norms" : ""),
            .buffers = {bytes_of(in.qkv), cache, cache, raw(in.q_norm), raw(in.k_norm), raw(in.inverse),
                        raw(in.positions), raw(in.slots), raw(std::vector{counts})},
            .outputs = {{.buffer = 0, .tolerance = bf16},
                        {.buffer = 1, .type = s.cache, .tolerance = e4m3 ? fp8 : bf16},
                        {.buffer = 2, .type = s.cache, .tolerance = e4m3 ? fp8 : bf16}}};
  if (!timed) oracle(s, in, op.outputs);
  MET_ASSIGN(const auto plan, ops::cuda::plan_rope_kv(gpu, {.head_dim = s.head_dim,
                                                            .rotary_dim = s.rotary_dim,
                                                            .cache = s.cache,
                                                            .tokens_max = s.tokens_max}));
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const auto at = [&](std::size_t i) { return reinterpret_cast<void*>(p[i].value); };
    const auto floats = [&](std::size_t i) { return static_cast<const float*>(at(i)); };
    const AttentionLayerArgs layer{.q_norm = s.norms ? floats(3) : nullptr,
                                   .k_norm = s.norms ? floats(4) : nullptr,
                                   .inv_freq = s.rotary_dim > 0 ? floats(5) : nullptr,
                                   .sinks = nullptr,
                                   .k_cache = at(1),
                                   .v_cache = at(2),
                                   .k_scale = e4m3 ? kKScale : 1.0F,
                                   .v_scale = e4m3 ? kVScale : 1.0F,
                                   .heads = s.heads,
                                   .kv_heads = s.kv_heads,
                                   .head_dim = s.head_dim,
                                   .rotary_dim = s.rotary_dim,
                                   .interleaved = s.interleaved,
                                   .window = 0,
                                   .norm_eps = kEps,
                                   .rope_scale = kRopeScale,
                                   .scale = 1.0F,
                                   .softcap = 0.0F};
    return std::vector{ops::cuda::rope_kv_launch(plan, {.layer = layer,
                                                        .qkv = static_cast<Bf16Bits*>(at(0)),
                                                        .positions = static_cast<const std::int32_t*>(at(6)),
                                                        .slots = static_cast<const std::int32_t*>(at(7)),
                                                        .counts = static_cast<const StepCounts*>(at(8))})};
  };
  const int written = 2 * s.heads + (e4m3 ? 2 : 4) * s.kv_heads;
  op.bytes = (2.0 * static_cast<double>(in.row) + written * s.head_dim) * (s.tokens - s.decode_rows);
  return op;
}

}  // namespace

Result<std::vector<OpCase>> rope_kv_cases(GpuBackend& gpu, bool timed) {
  constexpr auto kE4m3 = DType::kF8E4M3;
  constexpr auto kBf16 = DType::kBF16;
  std::vector<RopeShape> shapes;
  if (timed) {
    for (const int n : {128, 2048, 8192}) shapes.push_back({0, n, n, 32, 8, 128, 128, false, true});
    shapes.push_back({0, 8192, 8192, 32, 8, 128, 128, false, true, kE4m3});
    shapes.push_back({0, 8192, 8192, 32, 8, 128, 128, false, false});  // Llama-3.1-8B
    shapes.push_back({0, 8192, 8192, 32, 16, 128, 128, false, true});  // Gemma-3-27B
    shapes.push_back({0, 8192, 8192, 9, 3, 64, 64, false, false});     // SmolLM2-135M
  } else {
    for (const bool interleaved : {false, true})
      for (const DType cache : {kBf16, kE4m3}) {
        shapes.push_back({0, 0, 2, 9, 3, 64, 64, interleaved, true, cache});
        shapes.push_back({2, 2, 4, 9, 3, 64, 64, interleaved, true, cache});  // decode rows alone
        shapes.push_back({0, 1, 1, 32, 8, 128, 128, interleaved, true, cache});
        shapes.push_back(
            {3, 37, 40, 32, 8, 128, 128, interleaved, true, cache, 31249});  // positions to a million
        shapes.push_back({1, 20, 33, 2, 1, 16, 16, interleaved, false, cache, 7});
        shapes.push_back({1, 20, 33, 4, 2, 32, 32, interleaved, true, cache, 7});
        shapes.push_back({0, 21, 21, 16, 8, 256, 256, interleaved, true, cache, 977});
        shapes.push_back({0, 33, 40, 8, 8, 96, 48, interleaved, true, cache, 977});  // part of a head turns
        shapes.push_back({0, 18, 18, 64, 8, 128, 32, interleaved, false, cache, 977});
        shapes.push_back({0, 18, 18, 9, 3, 64, 0, interleaved, true, cache});  // no rotation
      }
  }
  std::vector<OpCase> cases;
  for (const RopeShape& s : shapes) {
    MET_ASSIGN(OpCase made, rope_kv(gpu, s, timed));
    cases.push_back(std::move(made));
  }
  return cases;
}

}  // namespace met::gpu::check
