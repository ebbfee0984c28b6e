// Inputs and FP64 oracle of the products of many tokens.
#include <cmath>

#include "ops/cuda/gemm.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

constexpr std::uint16_t kNan = 0x7fc0;  // rows that nobody may read for a result

struct GemmCase {
  int tokens, tokens_max, n, k;
  Epilogue epilogue;
  bool bias;
};

bool gated(const GemmCase& s) { return s.epilogue == Epilogue::kSiluMul || s.epilogue == Epilogue::kGeluMul; }

double activate(Epilogue epilogue, double g) {
  if (epilogue == Epilogue::kSiluMul) return g / (1.0 + std::exp(-g));
  return 0.5 * g * (1.0 + std::tanh(std::sqrt(2.0 / 3.14159265358979323846) * (g + 0.044715 * g * g * g)));
}

/// One row of products.
std::vector<double> sums_of(const GemmCase& s, const double* x, const std::vector<double>& weights,
                            const std::vector<float>& bias) {
  std::vector<double> sums(static_cast<std::size_t>(s.n));
  for (int n = 0; n < s.n; ++n) {
    double sum = s.bias ? static_cast<double>(bias[static_cast<std::size_t>(n)]) : 0.0;
    const double* w = weights.data() + static_cast<std::int64_t>(n) * s.k;
    for (int k = 0; k < s.k; ++k) sum += x[k] * w[k];
    sums[static_cast<std::size_t>(n)] = sum;
  }
  return sums;
}

/// Replaces the first `tokens` rows of `want`, which holds the rows as they were.
void oracle(const GemmCase& s, const std::vector<double>& x, const std::vector<double>& weights,
            const std::vector<float>& bias, std::vector<double>& want) {
  const int width = gated(s) ? s.n / 2 : s.n;
  for (int t = 0; t < s.tokens; ++t) {
    const std::vector<double> sums = sums_of(s, x.data() + static_cast<std::int64_t>(t) * s.k, weights, bias);
    for (int c = 0; c < width; ++c) {
      double& out =
          want[static_cast<std::size_t>(t) * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)];
      const auto at = static_cast<std::size_t>(gated(s) ? c / 8 * 16 + c % 8 : c);
      if (gated(s))
        out = activate(s.epilogue, sums[at]) * sums[at + 8];
      else
        out = sums[at] + (s.epilogue == Epilogue::kResidual ? out : 0.0);
    }
  }
}

/// The case without its launch.
OpCase make_case(const GemmCase& s, bool timed) {
  constexpr const char* kNames[] = {"", " residual", " silu", " gelu"};
  Rng rng{static_cast<std::uint64_t>(s.n * 31 + s.k * 7 + s.tokens)};
  auto x = random_bf16(rng, static_cast<std::size_t>(s.tokens_max) * static_cast<std::size_t>(s.k), 1.0);
  std::fill(x.begin() + static_cast<std::int64_t>(s.tokens) * s.k, x.end(), kNan);
  const auto weights = random_bf16(rng, static_cast<std::size_t>(s.n) * static_cast<std::size_t>(s.k),
                                   3.0 / std::sqrt(static_cast<double>(s.k)));
  std::vector<float> bias;
  for (int n = 0; n < s.n; ++n) bias.push_back(static_cast<float>(rng.uniform(-1, 1)));
  const int width = gated(s) ? s.n / 2 : s.n;
  const auto y =
      random_bf16(rng, static_cast<std::size_t>(s.tokens_max) * static_cast<std::size_t>(width), 2.0);
  OpCase op{.shape = std::to_string(s.tokens) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
                     kNames[static_cast<int>(s.epilogue)] + (s.bias ? " bias" : ""),
            .buffers = {bytes_of(x), bytes_of(weights), raw(bias), bytes_of(y),
                        raw(std::vector{StepCounts{s.tokens, 1, 1, 0}})},
            .outputs = {{.buffer = 3, .tolerance = {"one BF16 rounding, FP32 sums", kBf16Rounding, 3e-4}}}};
  if (!timed) {
    op.outputs[0].want = values_of(y);
    oracle(s, values_of(x), values_of(weights), bias, op.outputs[0].want);
  }
  op.flops = 2.0 * s.tokens * s.n * s.k;
  op.bytes = 2.0 * (static_cast<double>(s.n) * s.k + static_cast<double>(s.tokens) * (s.k + width));
  return op;
}

/// The case as a tile computes it.
Result<OpCase> with_plan(GpuBackend& gpu, OpCase op, const GemmCase& s, const ops::cuda::GemmPlan& plan) {
  op.op = std::string(plan.tile->entry);
  op.launch = [=, &gpu](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    MET_ASSIGN(const DeviceTensorMap x, ops::cuda::gemm_x_map(gpu, p[0], s.tokens_max, s.k));
    MET_ASSIGN(const DeviceTensorMap weights, ops::cuda::gemm_weights_map(gpu, p[1], s.n, s.k));
    auto* y = reinterpret_cast<Bf16Bits*>(p[3].value);
    return std::vector{
        ops::cuda::gemm_launch(plan, {.weights = weights,
                                      .x = x,
                                      .counts = reinterpret_cast<const StepCounts*>(p[4].value),
                                      .weight_scales = nullptr,
                                      .x_scales = nullptr,
                                      .bias = s.bias ? reinterpret_cast<const float*>(p[2].value) : nullptr,
                                      .residual = y,
                                      .y = y,
                                      .ldy = gated(s) ? s.n / 2 : s.n,
                                      .n = s.n,
                                      .k = s.k,
                                      .block_scales = 0,
                                      .epilogue = s.epilogue})};
  };
  return op;
}

ops::cuda::GemmShape shape_of(const GemmCase& s) {
  return {.n = s.n, .k = s.k, .tokens_max = s.tokens_max, .epilogue = s.epilogue};
}

/// Shapes of Qwen3-8B, then others; with the planned tile.
Result<std::vector<OpCase>> timed_cases(GpuBackend& gpu) {
  std::vector<OpCase> cases;
  const auto add = [&](const GemmCase& s) -> Result<> {
    MET_ASSIGN(const auto plan, ops::cuda::plan_gemm(gpu, shape_of(s)));
    MET_ASSIGN(OpCase op, with_plan(gpu, make_case(s, true), s, plan));
    cases.push_back(std::move(op));
    return {};
  };
  for (const int m : {128, 512, 2048, 8192}) {
    MET_TRY(add({m, m, 6144, 4096, Epilogue::kStore, false}));
    MET_TRY(add({m, m, 4096, 4096, Epilogue::kResidual, false}));
    MET_TRY(add({m, m, 24576, 4096, Epilogue::kSiluMul, false}));
    MET_TRY(add({m, m, 4096, 12288, Epilogue::kResidual, false}));
  }
  MET_TRY(add({2048, 2048, 28672, 4096, Epilogue::kSiluMul, false}));  // Llama-3.1-8B
  MET_TRY(add({2048, 2048, 960, 576, Epilogue::kStore, false}));       // SmolLM2-135M
  MET_TRY(add({2048, 2048, 3072, 576, Epilogue::kSiluMul, false}));
  return cases;
}

}  // namespace

Result<std::vector<OpCase>> gemm_cases(GpuBackend& gpu, bool timed) {
  if (timed) return timed_cases(gpu);
  constexpr GemmCase kCases[] = {
      {0, 3, 128, 64, Epilogue::kStore, false},        {1, 1, 96, 64, Epilogue::kStore, true},
      {5, 9, 448, 192, Epilogue::kResidual, false},    {7, 200, 320, 128, Epilogue::kSiluMul, false},
      {65, 66, 256, 72, Epilogue::kGeluMul, true},     {129, 140, 200, 136, Epilogue::kStore, false},
      {257, 300, 640, 520, Epilogue::kSiluMul, false}, {190, 512, 576, 1536, Epilogue::kResidual, true},
      {2500, 2560, 384, 64, Epilogue::kStore, false},  // more than one group of rows
  };
  std::vector<OpCase> cases;
  for (const GemmCase& s : kCases) {
    const OpCase op = make_case(s, false);
    for (const ops::cuda::GemmTile& tile : ops::cuda::gemm_tiles()) {
      MET_ASSIGN(const auto plan, ops::cuda::plan_gemm(gpu, shape_of(s), tile));
      MET_ASSIGN(OpCase made, with_plan(gpu, op, s, plan));
      cases.push_back(std::move(made));
    }
  }
  constexpr GemmCase kModels[] = {{3, 128, 6144, 4096, Epilogue::kStore, false},
                                  {2, 2048, 24576, 4096, Epilogue::kSiluMul, false},
                                  {4, 300, 4096, 12288, Epilogue::kResidual, false}};
  for (const GemmCase& s : kModels) {
    MET_ASSIGN(const auto plan, ops::cuda::plan_gemm(gpu, shape_of(s)));
    MET_ASSIGN(OpCase op, with_plan(gpu, make_case(s, false), s, plan));
    cases.push_back(std::move(op));
  }
  return cases;
}

}  // namespace met::gpu::check
