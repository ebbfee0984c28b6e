// Inputs and FP64 oracle of RMSNorm.
#include <cmath>
#include <cstring>

#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

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
  OpCase op{
      .op = s.entry,
      .shape = std::to_string(s.rows) + "x" + std::to_string(s.dim) + (s.add ? " add" : ""),
      .buffers = {bytes_of(x), bytes_of(w), bytes_of(y), raw(std::vector<std::int32_t>{s.rows})},
      .outputs = {{.buffer = 2,
                   .tolerance = {"one BF16 rounding, FP32 sums", kBf16Rounding, s.add ? 0x1p-16 : 0.0}}}};
  if (!timed) {
    op.outputs[0].want = values_of(y);
    const auto xs = values_of(x);
    const auto ws = values_of(w);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      double sum = 0;
      for (std::int64_t d = 0; d < s.dim; ++d) sum += xs[r * s.dim + d] * xs[r * s.dim + d];
      const double scale = 1.0 / std::sqrt(sum / static_cast<double>(s.dim) + static_cast<double>(eps));
      for (std::int64_t d = 0; d < s.dim; ++d) {
        double& out = op.outputs[0].want[r * s.dim + d];
        out = (s.add ? out : 0.0) + xs[r * s.dim + d] * scale * (ws[d] + static_cast<double>(s.offset));
      }
    }
  }
  const bool short_rows = std::strcmp(s.entry, "rms_norm_rows_bf16") == 0;
  const auto blocks = static_cast<std::uint32_t>(short_rows ? (s.rows_max + 7) / 8 : s.rows_max);
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    KernelLaunch launch(kernel, {blocks}, {256});
    launch.buffer(p[0]).buffer(p[1]).buffer(p[2]).buffer(p[3]);
    launch.scalar(s.dim).scalar(eps).scalar(s.offset).scalar(std::int32_t{s.add});
    return std::vector{launch};
  };
  op.bytes = 2.0 * static_cast<double>(s.dim) * (s.rows * (s.add ? 3.0 : 2.0) + 1.0);
  return op;
}

}  // namespace

Result<std::vector<OpCase>> rms_norm_cases(GpuBackend& gpu, bool timed) {
  MET_ASSIGN(const KernelHandle rows, gpu.kernel("rms_norm", "rms_norm_bf16"));
  MET_ASSIGN(const KernelHandle short_rows, gpu.kernel("rms_norm", "rms_norm_rows_bf16"));
  std::vector<OpCase> cases;
  const auto rms = [&](const RmsShape& s) {
    const bool whole = std::strcmp(s.entry, "rms_norm_bf16") == 0;
    cases.push_back(rms_norm(whole ? rows : short_rows, s, timed));
  };
  if (timed) {
    for (const int n : {1, 16, 128, 4096, 16384}) rms({"rms_norm_bf16", n, n, 4096, false, 0, 1});
    rms({"rms_norm_bf16", 16384, 16384, 4096, true, 0, 1});
    rms({"rms_norm_rows_bf16", 524288, 524288, 128, false, 0, 1});
    return cases;
  }
  for (const int n : {0, 1, 7, 300})
    for (const std::int64_t dim : {8, 576, 4096, 8192, 12288})
      for (const bool add : {false, true})
        rms({"rms_norm_bf16", n, n + 2, dim, add, add ? 1.0F : 0.0F, n == 7 ? 1e4 : n == 1 ? 1e-3 : 1.0});
  for (const int n : {0, 1, 9, 333})
    for (const std::int64_t dim : {64, 128, 1024, 1536})
      rms({"rms_norm_rows_bf16", n, n + 11, dim, n == 9, 0.0F, 1.0});
  return cases;
}

}  // namespace met::gpu::check
