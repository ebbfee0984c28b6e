// Inputs and FP64 oracles of the device operations.
#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

// One BF16 rounding (8 significant bits) and what FP32 sums and rsqrt add.
constexpr double kBf16 = 0x1p-8 + 0x1p-16;

std::vector<double> values_of(const std::vector<std::uint16_t>& bits) {
  std::vector<double> values;
  values.reserve(bits.size());
  for (const std::uint16_t b : bits) values.push_back(bf16_to_f32(b));
  return values;
}

struct RmsShape {
  const char* entry;
  int rows, rows_max;
  std::int64_t dim;
  bool add;
  float offset;
  double magnitude;
};

OpCase rms_norm(KernelHandle kernel, const RmsShape& s, bool timed) {
  Rng rng{static_cast<std::uint64_t>(s.dim * 131 + s.rows)};
  const float eps = 1e-6F;
  const auto x = random_bf16(rng, s.rows_max * s.dim, s.magnitude);
  const auto w = random_bf16(rng, s.dim, 1.5);
  const auto y = random_bf16(rng, s.rows_max * s.dim, 2.0);
  OpCase op{.op = s.entry,
            .shape = std::to_string(s.rows) + "x" + std::to_string(s.dim) + (s.add ? " add" : ""),
            .buffers = {bytes_of(x), bytes_of(w), bytes_of(y), raw(std::vector<std::int32_t>{s.rows})},
            .output = 2,
            .tolerance = {"one BF16 rounding, FP32 sums", kBf16, s.add ? 0x1p-16 : 0.0}};
  if (!timed) {
    op.want = values_of(y);
    const auto xs = values_of(x);
    const auto ws = values_of(w);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      double sum = 0;
      for (std::int64_t d = 0; d < s.dim; ++d) sum += xs[r * s.dim + d] * xs[r * s.dim + d];
      const double scale = 1.0 / std::sqrt(sum / static_cast<double>(s.dim) + static_cast<double>(eps));
      for (std::int64_t d = 0; d < s.dim; ++d) {
        double& out = op.want[r * s.dim + d];
        out = (s.add ? out : 0.0) + xs[r * s.dim + d] * scale * (ws[d] + static_cast<double>(s.offset));
      }
    }
  }
  const bool short_rows = std::strcmp(s.entry, "rms_norm_rows_bf16") == 0;
  const auto blocks = static_cast<std::uint32_t>(short_rows ? (s.rows_max + 7) / 8 : s.rows_max);
  op.launch = [=](std::span<const DevicePtr> p) {
    KernelLaunch launch(kernel, {blocks}, {256});
    launch.buffer(p[0]).buffer(p[1]).buffer(p[2]).buffer(p[3]);
    launch.scalar(s.dim).scalar(eps).scalar(s.offset).scalar(std::int32_t{s.add});
    return launch;
  };
  op.bytes = 2.0 * static_cast<double>(s.dim) * (s.rows * (s.add ? 3.0 : 2.0) + 1.0);
  return op;
}

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
      .output = 0,
      // a cos - b sin may cancel: FP32 errors of terms up to 3 * sqrt(2) * 1.25 stay.
      .tolerance = {"one BF16 rounding, FP32 rotation", kBf16, 0x1p-18}};
  if (!timed) {
    op.want = values_of(qkv);
    const int half = s.rotary_dim / 2;
    for (int t = 0; t < s.tokens; ++t)
      for (int h = 0; h < s.heads + s.kv_heads; ++h)
        for (int i = 0; i < half; ++i) {
          double* head = op.want.data() + t * row + static_cast<std::int64_t>(h) * s.head_dim;
          double& a = head[s.interleaved ? 2 * i : i];
          double& b = head[s.interleaved ? 2 * i + 1 : i + half];
          const double angle = static_cast<double>(static_cast<float>(positions[t]) * inverse[i]);
          const double was = a;
          a = (was * std::cos(angle) - b * std::sin(angle)) * static_cast<double>(scale);
          b = (b * std::cos(angle) + was * std::sin(angle)) * static_cast<double>(scale);
        }
  }
  const auto blocks = static_cast<std::uint32_t>(s.tokens_max);
  op.launch = [=](std::span<const DevicePtr> p) {
    KernelLaunch launch(kernel, {blocks}, {256});
    launch.buffer(p[0]).buffer(p[1]).buffer(p[2]).buffer(p[3]);
    launch.scalar(s.heads).scalar(s.kv_heads).scalar(s.head_dim).scalar(s.rotary_dim);
    launch.scalar(std::int32_t{s.interleaved}).scalar(scale);
    return launch;
  };
  op.bytes = 4.0 * (s.heads + s.kv_heads) * s.rotary_dim * s.tokens;
  return op;
}

struct EmbeddingShape {
  int tokens, tokens_max;
  std::int64_t dim, vocabulary;
  float scale;
};

OpCase embedding(KernelHandle kernel, const EmbeddingShape& s, bool timed) {
  Rng rng{static_cast<std::uint64_t>(s.tokens * 11 + s.dim)};
  const auto table = random_bf16(rng, s.vocabulary * s.dim, 2.0);
  const auto y = random_bf16(rng, s.tokens_max * s.dim, 2.0);
  std::vector<std::int32_t> ids;
  for (int t = 0; t < s.tokens_max; ++t) ids.push_back(static_cast<std::int32_t>(rng.next() % s.vocabulary));
  if (!timed && s.tokens > 2) {
    ids[0] = -1;
    ids[1] = static_cast<std::int32_t>(s.vocabulary);
  }
  OpCase op{
      .op = "embedding_bf16",
      .shape = std::to_string(s.tokens) + "x" + std::to_string(s.dim) + (s.scale == 1 ? "" : " scaled"),
      .buffers = {raw(ids), bytes_of(table), bytes_of(y), raw(std::vector<std::int32_t>{s.tokens})},
      .output = 2,
      .tolerance = s.scale == 1 ? Tolerance{"exact copy", 0, 0} : Tolerance{"one BF16 rounding", kBf16, 0}};
  if (!timed) {
    op.want = values_of(y);
    const auto rows = values_of(table);
    for (int t = 0; t < s.tokens; ++t)
      for (std::int64_t d = 0; d < s.dim; ++d) {
        const bool known = ids[t] >= 0 && ids[t] < s.vocabulary;
        op.want[t * s.dim + d] = known ? rows[ids[t] * s.dim + d] * static_cast<double>(s.scale) : 0.0;
      }
  }
  const auto blocks = static_cast<std::uint32_t>(s.tokens_max);
  op.launch = [=](std::span<const DevicePtr> p) {
    KernelLaunch launch(kernel, {blocks}, {256});
    launch.buffer(p[0]).buffer(p[1]).buffer(p[2]).buffer(p[3]);
    launch.scalar(s.dim).scalar(s.vocabulary).scalar(s.scale);
    return launch;
  };
  op.bytes = 4.0 * static_cast<double>(s.dim) * s.tokens;
  return op;
}

}  // namespace

Result<std::vector<OpCase>> all_cases(GpuBackend& gpu, bool timed) {
  MET_ASSIGN(const KernelHandle rows, gpu.kernel("rms_norm", "rms_norm_bf16"));
  MET_ASSIGN(const KernelHandle short_rows, gpu.kernel("rms_norm", "rms_norm_rows_bf16"));
  MET_ASSIGN(const KernelHandle rotate, gpu.kernel("rope", "rope_bf16"));
  MET_ASSIGN(const KernelHandle lookup, gpu.kernel("embedding", "embedding_bf16"));
  std::vector<OpCase> cases;
  const auto rms = [&](const RmsShape& s) {
    const bool whole = std::strcmp(s.entry, "rms_norm_bf16") == 0;
    cases.push_back(rms_norm(whole ? rows : short_rows, s, timed));
  };
  if (timed) {
    for (const int n : {1, 16, 128, 4096, 16384}) rms({"rms_norm_bf16", n, n, 4096, false, 0, 1});
    rms({"rms_norm_bf16", 16384, 16384, 4096, true, 0, 1});
    rms({"rms_norm_rows_bf16", 524288, 524288, 128, false, 0, 1});
    for (const int n : {1, 128, 16384})
      cases.push_back(rope(rotate, {n, n, 32, 8, 128, 128, false, 1}, true));
    cases.push_back(rope(rotate, {16384, 16384, 32, 8, 128, 128, true, 1}, true));
    for (const int n : {1, 128, 16384})
      cases.push_back(embedding(lookup, {n, n, 4096, n > 1000 ? 32768 : 1024, 1}, true));
    return cases;
  }
  for (const int n : {0, 1, 7, 300})
    for (const std::int64_t dim : {8, 576, 4096, 8192, 12288})
      for (const bool add : {false, true})
        rms({"rms_norm_bf16", n, n + 2, dim, add, add ? 1.0F : 0.0F, n == 7 ? 1e4 : n == 1 ? 1e-3 : 1.0});
  for (const int n : {0, 1, 9, 333})
    for (const std::int64_t dim : {64, 128, 1024, 1536})
      rms({"rms_norm_rows_bf16", n, n + 11, dim, n == 9, 0.0F, 1.0});
  for (const bool interleaved : {false, true}) {
    cases.push_back(rope(rotate, {0, 2, 9, 3, 64, 64, interleaved, 1}, false));
    cases.push_back(rope(rotate, {5, 7, 9, 3, 64, 64, interleaved, 1}, false));
    cases.push_back(rope(rotate, {33, 40, 32, 8, 128, 128, interleaved, 31249}, false));  // to a million
    cases.push_back(rope(rotate, {33, 40, 8, 8, 96, 48, interleaved, 977}, false));       // part of a head
  }
  for (const float scale : {1.0F, 33.94F})
    for (const int n : {0, 1, 5, 200})
      cases.push_back(embedding(lookup, {n, n + 3, 576, 1000, scale}, false));
  return cases;
}

}  // namespace met::gpu::check
