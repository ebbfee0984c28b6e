// Inputs and FP64 oracle of the rotary embedding.
#include <cmath>
#include <cstring>

#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

struct RopeShape {
  int tokens, tokens_max, heads, kv_heads, head_dim, rotary_dim;
  bool interleaved;
  int position_step;
};

OpCase rope(KernelHandle kernel, const RopeShape& s, bool timed) {
  Rng rng{static_cast<std::uint64_t>(s.tokens * 7 + s.rotary_dim)};
  const std::int64_t row = static_cast<std::int64_t>(s.heads + 2 * s.kv_heads) * s.head_dim;
  const float scale = 1.25F;
  const auto qkv = random_bf16(rng, s.tokens_max * row, 3.0);
  std::vector<float> inverse;
  for (int i = 0; i < s.rotary_dim / 2; ++i)
    inverse.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / s.rotary_dim)));
  std::vector<std::int32_t> positions;
  for (int t = 0; t < s.tokens_max; ++t) positions.push_back(t * s.position_step + 3);
  OpCase op{
      .op = "rope_bf16",
      .shape = std::to_string(s.tokens) + "x(" + std::to_string(s.heads) + "+2*" +
               std::to_string(s.kv_heads) + ")x" + std::to_string(s.head_dim) +
               (s.interleaved ? " pairs" : " halves"),
      .buffers = {bytes_of(qkv), raw(inverse), raw(positions), raw(std::vector<std::int32_t>{s.tokens})},
      .outputs = {{.buffer = 0,
                   // a cos - b sin may cancel: FP32 errors of terms up to 3 * sqrt(2) * 1.25 stay.
                   .tolerance = {"one BF16 rounding, FP32 rotation", kBf16Rounding, 0x1p-18}}}};
  if (!timed) {
    op.outputs[0].want = values_of(qkv);
    const int half = s.rotary_dim / 2;
    for (int t = 0; t < s.tokens; ++t)
      for (int h = 0; h < s.heads + s.kv_heads; ++h)
        for (int i = 0; i < half; ++i) {
          double* head = op.outputs[0].want.data() + t * row + static_cast<std::int64_t>(h) * s.head_dim;
          double& a = head[s.interleaved ? 2 * i : i];
          double& b = head[s.interleaved ? 2 * i + 1 : i + half];
          const double angle = static_cast<double>(static_cast<float>(positions[t]) * inverse[i]);
          const double was = a;
          a = (was * std::cos(angle) - b * std::sin(angle)) * static_cast<double>(scale);
          b = (b * std::cos(angle) + was * std::sin(angle)) * static_cast<double>(scale);
        }
  }
  const auto blocks = static_cast<std::uint32_t>(s.tokens_max);
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    KernelLaunch launch(kernel, {blocks}, {256});
    launch.buffer(p[0]).buffer(p[1]).buffer(p[2]).buffer(p[3]);
    launch.scalar(s.heads).scalar(s.kv_heads).scalar(s.head_dim).scalar(s.rotary_dim);
    launch.scalar(std::int32_t{s.interleaved}).scalar(scale);
    return std::vector{launch};
  };
  op.bytes = 4.0 * (s.heads + s.kv_heads) * s.rotary_dim * s.tokens;
  return op;
}

}  // namespace

Result<std::vector<OpCase>> rope_cases(GpuBackend& gpu, bool timed) {
  MET_ASSIGN(const KernelHandle rotate, gpu.kernel("rope", "rope_bf16"));
  std::vector<OpCase> cases;
  if (timed) {
    for (const int n : {1, 128, 16384})
      cases.push_back(rope(rotate, {n, n, 32, 8, 128, 128, false, 1}, true));
    cases.push_back(rope(rotate, {16384, 16384, 32, 8, 128, 128, true, 1}, true));
    return cases;
  }
  for (const bool interleaved : {false, true}) {
    cases.push_back(rope(rotate, {0, 2, 9, 3, 64, 64, interleaved, 1}, false));
    cases.push_back(rope(rotate, {5, 7, 9, 3, 64, 64, interleaved, 1}, false));
    cases.push_back(rope(rotate, {33, 40, 32, 8, 128, 128, interleaved, 31249}, false));  // to a million
    cases.push_back(rope(rotate, {33, 40, 8, 8, 96, 48, interleaved, 977}, false));       // part of a head
  }
  return cases;
}

}  // namespace met::gpu::check
