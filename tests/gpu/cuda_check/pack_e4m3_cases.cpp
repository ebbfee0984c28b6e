// Inputs and FP64 oracle of the packing of weights as E4M3.
#include <cmath>

#include "ops/cuda/pack_e4m3.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

// Half a unit in the last of 4 significant bits, and below 2^-6 half of the smallest step.
constexpr double kE4m3Rounding = 0x1p-4 + 0x1p-12;
constexpr double kE4m3Step = 0x1p-10 + 0x1p-20;

OpCase pack_case(KernelHandle kernel, std::int64_t rows, std::int64_t k, bool timed) {
  Rng rng{static_cast<std::uint64_t>(rows * 31 + k)};
  const auto count = static_cast<std::size_t>(rows * k);
  std::vector<std::uint16_t> w = random_bf16(rng, count, 0.07);
  if (!timed) std::fill(w.begin(), w.begin() + k, std::uint16_t{0});  // a row of zeros
  OpCase op{
      .op = "pack_e4m3",
      .shape = std::to_string(rows) + "x" + std::to_string(k),
      .buffers = {bytes_of(w), std::vector<std::byte>(count, std::byte{0x7f}),
                  raw(std::vector<float>(static_cast<std::size_t>(rows), -1.0F))},
      .outputs = {{.buffer = 1,
                   .type = DType::kF8E4M3,
                   .want = {},
                   .tolerance = {"E4M3 rounding", kE4m3Rounding, kE4m3Step}},
                  {.buffer = 2, .type = DType::kF32, .want = {}, .tolerance = {"FP32 division", 0x1p-22, 0}}},
      .scratch = {}};
  if (!timed) {
    const auto values = values_of(w);
    op.outputs[0].want.resize(count);
    for (std::int64_t r = 0; r < rows; ++r) {
      double most = 0;
      for (std::int64_t i = 0; i < k; ++i)
        most = std::max(most, std::abs(values[static_cast<std::size_t>(r * k + i)]));
      const double scale = most > 0 ? most / 448 : 1;
      op.outputs[1].want.push_back(scale);
      for (std::int64_t i = 0; i < k; ++i)
        op.outputs[0].want[static_cast<std::size_t>(r * k + i)] =
            values[static_cast<std::size_t>(r * k + i)] / scale;
    }
  }
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    KernelLaunch launch(kernel, {static_cast<std::uint32_t>(rows)}, {256});
    launch.buffer(p[0]).buffer(p[1]).buffer(p[2]).scalar(k);
    return std::vector{launch};
  };
  op.bytes = 3.0 * static_cast<double>(count);
  return op;
}

}  // namespace

Result<std::vector<OpCase>> pack_e4m3_cases(GpuBackend& gpu, bool timed) {
  MET_ASSIGN(const KernelHandle kernel, gpu.kernel("pack_e4m3", "pack_e4m3"));
  std::vector<OpCase> cases;
  if (timed) {
    cases.push_back(pack_case(kernel, 4096, 4096, true));
    return cases;
  }
  for (const std::int64_t k : {16, 144, 192, 4096, 12288}) cases.push_back(pack_case(kernel, 5, k, false));
  return cases;
}

}  // namespace met::gpu::check
