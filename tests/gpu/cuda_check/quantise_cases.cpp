// Inputs and FP64 oracle of quantised rows.
#include <cmath>

#include "ops/cuda/quantise.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

constexpr float kEps = 1e-6F;
constexpr int kFine = 32, kFineBlock = 128;  // scales of 32 of k lie together for 128

struct QuantiseCase {
  int tokens, tokens_max, k;
  bool norm;
  double magnitude = 1;
  int share = 128;     ///< values of k that share a scale
  bool pairs = false;  ///< short rows, counted by another number
};

std::size_t scale_index(const QuantiseCase& s, int t, int k) {
  const int ld = ops::cuda::quantise_scales_ld(s.tokens_max);
  if (s.share != kFine) return static_cast<std::size_t>(k / s.share * ld + t);
  return static_cast<std::size_t>((k / kFineBlock * ld + t) * 4 + k % kFineBlock / kFine);
}

/// A row as it is quantised.
std::vector<double> row_of(const QuantiseCase& s, const double* x, const std::vector<float>& norm) {
  std::vector<double> row(x, x + s.k);
  if (!s.norm) return row;
  double sum = 0;
  for (const double v : row) sum += v * v;
  const double scale = 1.0 / std::sqrt(sum / s.k + static_cast<double>(kEps));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] *= scale * static_cast<double>(norm[i]);
  return row;
}

/// Fills the codes' values and the scales.
void oracle(const QuantiseCase& s, const std::vector<double>& x, const std::vector<float>& norm,
            std::vector<double>& codes, std::vector<double>& scales) {
  for (int t = 0; t < s.tokens; ++t) {
    const std::vector<double> row = row_of(s, x.data() + static_cast<std::int64_t>(t) * s.k, norm);
    for (int begin = 0; begin < s.k; begin += s.share) {
      const int end = std::min(begin + s.share, s.k);
      double most = 1e-20;
      for (int k = begin; k < end; ++k) most = std::max(most, std::abs(row[static_cast<std::size_t>(k)]));
      scales[scale_index(s, t, begin)] = most / 448;
      for (int k = begin; k < end; ++k)
        codes[static_cast<std::size_t>(t) * static_cast<std::size_t>(s.k) + static_cast<std::size_t>(k)] =
            row[static_cast<std::size_t>(k)] / (most / 448);
    }
  }
}

Result<OpCase> quantise(GpuBackend& gpu, const QuantiseCase& s, bool timed) {
  Rng rng{static_cast<std::uint64_t>(s.k * 131 + s.tokens)};
  const auto count = static_cast<std::size_t>(s.tokens_max) * static_cast<std::size_t>(s.k);
  const auto x = random_bf16(rng, count, s.magnitude);
  std::vector<float> norm;
  for (int k = 0; k < s.k; ++k) norm.push_back(static_cast<float>(rng.uniform(-2, 2)));
  const int ld = ops::cuda::quantise_scales_ld(s.tokens_max);
  const int block = std::max(s.share, kFineBlock);
  const std::vector<float> scales(scale_index(s, 0, (s.k + block - 1) / block * block), 3.0F);
  OpCase op{.op = s.pairs ? "quantise_e4m3_pairs" : "quantise_e4m3",
            .shape = std::to_string(s.tokens) + "x" + std::to_string(s.k) + (s.norm ? " norm" : "") + " by " +
                     std::to_string(s.share),
            .buffers = {bytes_of(x), raw(norm), std::vector<std::byte>(count), raw(scales),
                        raw(std::vector{StepCounts{s.pairs ? 1 : s.tokens, 1, 1, 0}})},
            .outputs = {{.buffer = 2,
                         .type = DType::kF8E4M3,
                         .want = std::vector<double>(count, 0.0),
                         .tolerance = {"one E4M3 rounding", 0x1p-4 + 0x1p-12, 0x1p-10 + 0x1p-12}},
                        {.buffer = 3,
                         .type = DType::kF32,
                         .want = std::vector<double>(scales.size(), 3.0),
                         .tolerance = {"FP32", 0x1p-18, 0}}}};
  if (!timed) oracle(s, values_of(x), norm, op.outputs[0].want, op.outputs[1].want);
  const ops::cuda::QuantiseShape shape{.k = s.k, .tokens = s.tokens_max};
  MET_ASSIGN(const auto plan,
             s.pairs ? ops::cuda::plan_quantise_pairs(gpu, shape) : ops::cuda::plan_quantise(gpu, shape));
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const QuantiseArgs args{.x = reinterpret_cast<const Bf16Bits*>(p[0].value),
                            .norm = s.norm ? reinterpret_cast<const float*>(p[1].value) : nullptr,
                            .y = reinterpret_cast<std::uint8_t*>(p[2].value),
                            .scales = reinterpret_cast<float*>(p[3].value),
                            .counts = reinterpret_cast<const StepCounts*>(p[4].value),
                            .k = s.k,
                            .scales_ld = ld,
                            .scale_values = s.share,
                            .eps = kEps};
    if (!s.pairs) return std::vector{quantise_launch(plan, args)};
    return std::vector{quantise_pairs_launch(plan, args, s.tokens)};
  };
  op.bytes = 3.0 * s.tokens * s.k;
  return op;
}

}  // namespace

Result<std::vector<OpCase>> quantise_cases(GpuBackend& gpu, bool timed) {
  std::vector<QuantiseCase> shapes;
  if (timed) {
    for (const int tokens : {128, 2048, 8192}) {
      for (const int share : {128, 512}) {
        shapes.push_back({tokens, tokens, 4096, true, 1.0, share});
        shapes.push_back({tokens, tokens, 12288, false, 1.0, share});
      }
      shapes.push_back({8 * tokens, 8 * tokens, 768, false, 1.0, 128, true});
    }
  } else {
    for (const int tokens : {0, 1, 7, 130})
      for (const int k : {16, 64, 144, 192, 576, 4096, 12288, 24576})
        for (const bool norm : {false, true})
          for (const int share : {128, 512})
            shapes.push_back({tokens, tokens + 3, k, norm,
                              tokens == 7   ? 1e4
                              : tokens == 1 ? 1e-4
                                            : 1.0,
                              share});
    for (const int k : {16, 144, 4096, 24576}) shapes.push_back({7, 7, k, k == 4096, 1.0, kFine});
    for (const int k : {16, 96, 768, 6144}) shapes.push_back({65, 70, k, false, 1.0, 128, true});
    for (const int k : {496, 512, 528, 1552}) shapes.push_back({9, 9, k, k == 528, 1.0, 512});
    shapes.push_back({3, 3, 256, false, 0.0});  // zeros
  }
  std::vector<OpCase> cases;
  for (const QuantiseCase& s : shapes) {
    MET_ASSIGN(OpCase made, quantise(gpu, s, timed));
    cases.push_back(std::move(made));
  }
  return cases;
}

}  // namespace met::gpu::check
