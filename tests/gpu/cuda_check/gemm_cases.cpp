// Inputs and FP64 oracle of the products of many tokens.
#include <cmath>
#include <cstring>

#include "ops/cuda/gemm.h"
#include "ops/cuda/quantise.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

constexpr std::uint16_t kNan = 0x7fc0;  // rows that nobody may read for a result

struct GemmCase {
  int tokens, tokens_max, n, k;
  Epilogue epilogue;
  bool bias;
  DType type = DType::kBF16;
  bool block_scales = false;
  int norm_parts = 0;      // of each row's squares; 0: x is not normed
  bool next_norm = false;  // kResidual also writes for the norm that reads it
};

constexpr float kEps = 1e-6F;

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

/// What the norm in front multiplies row t by.
double norm_of(const GemmCase& s, const std::vector<float>& parts, int t) {
  double total = 0;
  for (int i = 0; i < s.norm_parts; ++i)
    total += static_cast<double>(parts[static_cast<std::size_t>(t * s.norm_parts + i)]);
  return s.norm_parts > 0 ? 1.0 / std::sqrt(total / s.k + static_cast<double>(kEps)) : 1.0;
}

/// Replaces the first `tokens` rows of `want`, which holds the rows as they were.
void oracle(const GemmCase& s, std::vector<double> x, const std::vector<double>& weights,
            const std::vector<float>& bias, const std::vector<float>& parts, std::vector<double>& want) {
  const int width = gated(s) ? s.n / 2 : s.n;
  for (int t = 0; t < s.tokens; ++t) {
    double* row = x.data() + static_cast<std::int64_t>(t) * s.k;
    for (int k = 0; k < s.k; ++k) row[k] *= norm_of(s, parts, t);
    const std::vector<double> sums = sums_of(s, row, weights, bias);
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

/// Both operands as the device gets them, and their values.
struct Operands {
  std::vector<std::byte> x, weights;
  std::vector<float> x_scales, weight_scales;
  std::vector<double> x_values, weight_values;
};

Operands bf16_operands(const GemmCase& s, Rng& rng) {
  auto x = random_bf16(rng, static_cast<std::size_t>(s.tokens_max) * static_cast<std::size_t>(s.k), 1.0);
  std::fill(x.begin() + static_cast<std::int64_t>(s.tokens) * s.k, x.end(), kNan);
  const auto weights = random_bf16(rng, static_cast<std::size_t>(s.n) * static_cast<std::size_t>(s.k),
                                   3.0 / std::sqrt(static_cast<double>(s.k)));
  return {.x = bytes_of(x),
          .weights = bytes_of(weights),
          .x_scales = {},
          .weight_scales = {},
          .x_values = values_of(x),
          .weight_values = values_of(weights)};
}

/// Codes of finite E4M3 values up to 30 in magnitude.
std::vector<std::byte> random_e4m3(Rng& rng, std::size_t count) {
  constexpr std::uint64_t kCodes = 0x60;
  std::vector<std::byte> codes(count);
  for (std::byte& code : codes) {
    const std::uint64_t bits = rng.next();
    code = static_cast<std::byte>(bits % kCodes | (bits >> 32 & 0x80));
  }
  return codes;
}

/// Row of the scales of W's row `n` where a scale stands for 128 x 128 values.
int scale_row(const GemmCase& s, int n) { return gated(s) ? n / 256 * 2 + n / 8 % 2 : n / 128; }

/// Values of k that share a scale of x.
int x_values_a_scale(const GemmCase& s) { return s.block_scales ? 128 : 512; }

Operands e4m3_operands(const GemmCase& s, Rng& rng) {
  const int blocks = (s.k + 127) / 128;
  const int x_step = x_values_a_scale(s);
  const int ld = ops::cuda::quantise_scales_ld(s.tokens_max);
  Operands out{.x = random_e4m3(rng, static_cast<std::size_t>(s.tokens_max) * static_cast<std::size_t>(s.k)),
               .weights = random_e4m3(rng, static_cast<std::size_t>(s.n) * static_cast<std::size_t>(s.k)),
               .x_scales = {},
               .weight_scales = {},
               .x_values = {},
               .weight_values = {}};
  for (int i = 0; i < (s.k + x_step - 1) / x_step * ld; ++i)
    out.x_scales.push_back(i % ld < s.tokens ? static_cast<float>(rng.uniform(0.05, 0.15)) : NAN);
  const int scales = s.block_scales ? (scale_row(s, s.n - 1) / 2 * 2 + 2) * blocks : s.n;
  for (int i = 0; i < scales; ++i)
    out.weight_scales.push_back(
        static_cast<float>(rng.uniform(0.1, 0.3) / std::sqrt(static_cast<double>(s.k))));
  const auto value = [](std::byte code) {
    return static_cast<double>(f8e4m3_to_f32(static_cast<std::uint8_t>(code)));
  };
  for (std::size_t i = 0; i < out.x.size(); ++i) {
    const auto k = static_cast<std::size_t>(s.k);
    const std::size_t scale = i % k / static_cast<std::size_t>(x_step) * static_cast<std::size_t>(ld) + i / k;
    out.x_values.push_back(value(out.x[i]) * static_cast<double>(out.x_scales[scale]));
  }
  for (std::size_t i = 0; i < out.weights.size(); ++i) {
    const int n = static_cast<int>(i / static_cast<std::size_t>(s.k));
    const int block = static_cast<int>(i % static_cast<std::size_t>(s.k)) / 128;
    const int scale = s.block_scales ? scale_row(s, n) * blocks + block : n;
    out.weight_values.push_back(value(out.weights[i]) *
                                static_cast<double>(out.weight_scales[static_cast<std::size_t>(scale)]));
  }
  return out;
}

/// The case without its launch.
OpCase make_case(const GemmCase& s, bool timed) {
  constexpr const char* kNames[] = {"", " residual", " silu", " gelu"};
  constexpr Tolerance kBf16{"one BF16 rounding, FP32 sums", kBf16Rounding, 3e-4};
  // Tensor cores keep some 13 bits of sums over up to 512 of k, which reach 8 here; a gated result multiplies that error by the
  // other factor.
  constexpr Tolerance kE4m3{"one BF16 rounding, 13-bit sums over 512", kBf16Rounding, 1.2e-2};
  constexpr Tolerance kE4m3Gated{"one BF16 rounding, 13-bit sums over 512, times up to 4", kBf16Rounding,
                                 4.8e-2};
  const bool e4m3 = s.type == DType::kF8E4M3;
  Rng rng{static_cast<std::uint64_t>(s.n * 31 + s.k * 7 + s.tokens)};
  const Operands in = e4m3 ? e4m3_operands(s, rng) : bf16_operands(s, rng);
  std::vector<float> bias;
  for (int n = 0; n < s.n; ++n) bias.push_back(static_cast<float>(rng.uniform(-1, 1)));
  const int width = gated(s) ? s.n / 2 : s.n;
  const auto y =
      random_bf16(rng, static_cast<std::size_t>(s.tokens_max) * static_cast<std::size_t>(width), 2.0);
  OpCase op{
      .shape = std::to_string(s.tokens) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
               kNames[static_cast<int>(s.epilogue)] + (s.bias ? " bias" : "") +
               (s.block_scales ? " blocks" : "") + (s.norm_parts > 0 ? " norm" : "") +
               (s.next_norm ? " next" : ""),
      .buffers = {in.x, in.weights, raw(bias), bytes_of(y), raw(std::vector{StepCounts{s.tokens, 1, 1, 0}})},
      .outputs = {{.buffer = 3,
                   .tolerance = !e4m3      ? kBf16
                                : gated(s) ? kE4m3Gated
                                           : kE4m3}}};
  const auto rows = static_cast<std::size_t>(s.tokens_max);
  std::vector<float> parts, next;
  for (std::size_t i = 0; i < rows * static_cast<std::size_t>(s.norm_parts); ++i)
    parts.push_back(static_cast<float>(rng.uniform(0.1, 2.0) * s.k / s.norm_parts));
  for (int i = 0; i < s.n; ++i) next.push_back(static_cast<float>(rng.uniform(-2, 2)));
  op.buffers.push_back(raw(in.weight_scales));
  op.buffers.push_back(raw(in.x_scales));
  op.buffers.push_back(raw(parts));
  op.buffers.push_back(raw(next));
  if (!timed) {
    op.outputs[0].want = values_of(y);
    oracle(s, in.x_values, in.weight_values, bias, parts, op.outputs[0].want);
  }
  const double size = e4m3 ? 1 : 2;
  op.flops = 2.0 * s.tokens * s.n * s.k;
  op.bytes = size * (static_cast<double>(s.n) * s.k + static_cast<double>(s.tokens) * s.k) +
             2.0 * s.tokens * width * (s.epilogue == Epilogue::kResidual ? 2 : 1);
  return op;
}

enum Buffer { kX, kWeights, kBias, kY, kCounts, kWeightScales, kXScales, kParts, kNext, kScaled, kSquares };

/// What a tile writes for the next norm: the rows of the residual times its weights, and a sum of squares for each group of
/// columns.
void add_next(const GemmCase& s, const ops::cuda::GemmPlan& plan, OpCase& op) {
  const auto n = static_cast<std::size_t>(s.n);
  const auto rows = static_cast<std::size_t>(s.tokens_max);
  const auto parts = static_cast<std::size_t>(plan.squares_count);
  const auto columns = static_cast<std::size_t>(plan.tile->columns / plan.tile->splits);
  op.buffers.emplace_back(2 * rows * n);
  op.buffers.emplace_back(4 * rows * parts);
  const bool e4m3 = s.type == DType::kF8E4M3;
  Output scaled{.buffer = kScaled,
                .want = std::vector<double>(rows * n),
                .tolerance = {"two BF16 roundings", 2 * kBf16Rounding, e4m3 ? 2.4e-2 : 1e-3}};
  Output squares{.buffer = kSquares,
                 .type = DType::kF32,
                 .want = std::vector<double>(rows * parts),
                 .tolerance = {"squares of BF16 roundings", 2 * kBf16Rounding, e4m3 ? 1.0 : 0.05}};
  const std::vector<double>& h = op.outputs[0].want;
  for (std::size_t i = 0; i < static_cast<std::size_t>(s.tokens) * n && !h.empty(); ++i) {
    float weight = 0;
    std::memcpy(&weight, op.buffers[kNext].data() + i % n * sizeof weight, sizeof weight);
    scaled.want[i] = h[i] * static_cast<double>(weight);
    squares.want[i / n * parts + i % n / columns] += h[i] * h[i];
  }
  op.outputs.push_back(std::move(scaled));
  op.outputs.push_back(std::move(squares));
}

/// The case as a tile computes it.
OpCase with_plan(GpuBackend& gpu, OpCase op, const GemmCase& s, const ops::cuda::GemmPlan& plan) {
  op.op = std::string(plan.tile->entry);
  if (s.next_norm) add_next(s, plan, op);
  op.launch = [=, &gpu](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    MET_ASSIGN(const DeviceTensorMap x, ops::cuda::gemm_x_map(gpu, p[kX], s.tokens_max, s.k, s.type));
    MET_ASSIGN(const DeviceTensorMap weights,
               ops::cuda::gemm_weights_map(gpu, p[kWeights], s.n, s.k, s.type));
    const bool e4m3 = s.type == DType::kF8E4M3;
    auto* y = reinterpret_cast<Bf16Bits*>(p[kY].value);
    const auto floats = [&](std::size_t i) { return reinterpret_cast<float*>(p[i].value); };
    return std::vector{ops::cuda::gemm_launch(
        plan, {.weights = weights,
               .x = x,
               .counts = reinterpret_cast<const StepCounts*>(p[kCounts].value),
               .weight_scales = e4m3 ? floats(kWeightScales) : nullptr,
               .x_scales = e4m3 ? floats(kXScales) : nullptr,
               .bias = s.bias ? floats(kBias) : nullptr,
               .residual = y,
               .y = y,
               .ldy = gated(s) ? s.n / 2 : s.n,
               .n = s.n,
               .k = s.k,
               .block_scales = s.block_scales,
               .epilogue = s.epilogue,
               .x_scales_ld = ops::cuda::quantise_scales_ld(s.tokens_max),
               .norm = {s.norm_parts > 0 ? floats(kParts) : nullptr, s.norm_parts, kEps},
               .next_norm = s.next_norm ? floats(kNext) : nullptr,
               .scaled = s.next_norm ? reinterpret_cast<Bf16Bits*>(p[kScaled].value) : nullptr,
               .squares = s.next_norm ? floats(kSquares) : nullptr})};
  };
  return op;
}

ops::cuda::GemmShape shape_of(const GemmCase& s) {
  return {.n = s.n,
          .k = s.k,
          .tokens_max = s.tokens_max,
          .weights = s.type,
          .epilogue = s.epilogue,
          .block_scales = s.block_scales,
          .next_norm = s.next_norm};
}

/// Adds the case with the tile that is planned for it.
Result<> add_planned(GpuBackend& gpu, const GemmCase& s, bool timed, std::vector<OpCase>& cases) {
  MET_ASSIGN(const auto plan, ops::cuda::plan_gemm(gpu, shape_of(s)));
  cases.push_back(with_plan(gpu, make_case(s, timed), s, plan));
  return {};
}

/// The case with every tile that serves it.
Result<> add_all(GpuBackend& gpu, const GemmCase& s, bool timed, std::vector<OpCase>& cases) {
  const OpCase op = make_case(s, timed);
  for (const ops::cuda::GemmTile& tile : ops::cuda::gemm_tiles()) {
    if (!ops::cuda::serves(tile, shape_of(s))) continue;
    MET_ASSIGN(const auto plan, ops::cuda::plan_gemm(gpu, shape_of(s), tile));
    cases.push_back(with_plan(gpu, op, s, plan));
  }
  return {};
}

/// Attention's products of a decode step of Qwen3-30B-A3B, cut in every way; shapes of Qwen3-8B, then others, with the planned
/// tile.
Result<std::vector<OpCase>> timed_cases(GpuBackend& gpu) {
  std::vector<OpCase> cases;
  MET_TRY(add_all(gpu,
                  {.tokens = 128,
                   .tokens_max = 128,
                   .n = 2048,
                   .k = 4096,
                   .epilogue = Epilogue::kResidual,
                   .bias = false,
                   .next_norm = true},
                  true, cases));
  MET_TRY(add_all(gpu,
                  {.tokens = 128,
                   .tokens_max = 128,
                   .n = 5120,
                   .k = 2048,
                   .epilogue = Epilogue::kStore,
                   .bias = false,
                   .norm_parts = 1},
                  true, cases));
  for (const DType type : {DType::kBF16, DType::kF8E4M3}) {
    for (const int m : {128, 512, 2048, 8192}) {
      MET_TRY(add_planned(gpu, {m, m, 6144, 4096, Epilogue::kStore, false, type}, true, cases));
      MET_TRY(add_planned(gpu, {m, m, 4096, 4096, Epilogue::kResidual, false, type}, true, cases));
      MET_TRY(add_planned(gpu, {m, m, 24576, 4096, Epilogue::kSiluMul, false, type}, true, cases));
      MET_TRY(add_planned(gpu, {m, m, 4096, 12288, Epilogue::kResidual, false, type}, true, cases));
    }
  }
  constexpr GemmCase kOthers[] = {{2048, 2048, 28672, 4096, Epilogue::kSiluMul, false},  // Llama-3.1-8B
                                  {2048, 2048, 960, 576, Epilogue::kStore, false},       // SmolLM2-135M
                                  {2048, 2048, 3072, 576, Epilogue::kSiluMul, false}};
  for (const GemmCase& s : kOthers) MET_TRY(add_planned(gpu, s, true, cases));
  return cases;
}

constexpr GemmCase kBf16Cases[] = {
    {0, 3, 128, 64, Epilogue::kStore, false},
    {1, 1, 96, 64, Epilogue::kStore, true},
    {5, 9, 448, 192, Epilogue::kResidual, false},
    {7, 200, 320, 128, Epilogue::kSiluMul, false},
    {65, 66, 256, 72, Epilogue::kGeluMul, true},
    {129, 140, 200, 136, Epilogue::kStore, false},
    {257, 300, 640, 520, Epilogue::kSiluMul, false},
    {190, 512, 576, 1536, Epilogue::kResidual, true},
    {2500, 2560, 384, 64, Epilogue::kStore, false},  // more than one group of rows
    {.tokens = 129,
     .tokens_max = 256,
     .n = 328,
     .k = 136,
     .epilogue = Epilogue::kStore,
     .bias = true,
     .norm_parts = 5},
    {.tokens = 250,
     .tokens_max = 256,
     .n = 640,
     .k = 520,
     .epilogue = Epilogue::kSiluMul,
     .bias = false,
     .norm_parts = 128},
    {.tokens = 77,
     .tokens_max = 128,
     .n = 456,
     .k = 320,
     .epilogue = Epilogue::kResidual,
     .bias = true,
     .next_norm = true},
    {.tokens = 250,
     .tokens_max = 256,
     .n = 4096,
     .k = 192,
     .epilogue = Epilogue::kResidual,
     .bias = false,
     .norm_parts = 64,
     .next_norm = true},
    // The last tile's second half lies behind n, its part of the squares behind the buffer.
    {.tokens = 70,
     .tokens_max = 70,
     .n = 456,
     .k = 192,
     .epilogue = Epilogue::kResidual,
     .bias = false,
     .next_norm = true},
};
constexpr auto kE4m3 = DType::kF8E4M3;
constexpr GemmCase kE4m3Cases[] = {
    {0, 3, 128, 64, Epilogue::kStore, false, kE4m3},
    {1, 1, 96, 64, Epilogue::kStore, true, kE4m3},
    {5, 9, 448, 192, Epilogue::kResidual, false, kE4m3, true},
    {7, 200, 320, 128, Epilogue::kSiluMul, false, kE4m3},
    {7, 200, 512, 320, Epilogue::kSiluMul, false, kE4m3, true},
    {65, 66, 256, 576, Epilogue::kGeluMul, true, kE4m3, true},
    {257, 300, 640, 576, Epilogue::kSiluMul, false, kE4m3},
    {190, 512, 576, 1536, Epilogue::kResidual, true, kE4m3, true},
    {2500, 2560, 384, 64, Epilogue::kStore, false, kE4m3},
    // Around the ends of a scale of x, whole and cut within one: halves of k of 4 and 5, 4 and 4, 8 and 9 stages.
    {33, 64, 192, 512, Epilogue::kStore, false, kE4m3},
    {130, 130, 384, 528, Epilogue::kStore, true, kE4m3},
    {130, 130, 384, 528, Epilogue::kStore, true, kE4m3, true},
    {140, 200, 320, 1040, Epilogue::kResidual, false, kE4m3},
    {70, 130, 256, 1024, Epilogue::kSiluMul, false, kE4m3},
    {129, 256, 192, 2064, Epilogue::kStore, false, kE4m3},
    {.tokens = 130,
     .tokens_max = 256,
     .n = 640,
     .k = 576,
     .epilogue = Epilogue::kSiluMul,
     .bias = false,
     .type = kE4m3,
     .norm_parts = 64},
    {.tokens = 250,
     .tokens_max = 256,
     .n = 576,
     .k = 320,
     .epilogue = Epilogue::kResidual,
     .bias = true,
     .type = kE4m3,
     .norm_parts = 7,
     .next_norm = true},
    // As above: tiles of 128, then of 64.
    {.tokens = 128,
     .tokens_max = 128,
     .n = 576,
     .k = 192,
     .epilogue = Epilogue::kResidual,
     .bias = false,
     .type = kE4m3,
     .next_norm = true},
    {.tokens = 70,
     .tokens_max = 70,
     .n = 608,
     .k = 192,
     .epilogue = Epilogue::kResidual,
     .bias = false,
     .type = kE4m3,
     .next_norm = true},
};
/// Few rows of large weights.
constexpr GemmCase kModelCases[] = {
    {3, 128, 6144, 4096, Epilogue::kStore, false},
    {2, 2048, 24576, 4096, Epilogue::kSiluMul, false},
    {4, 300, 4096, 12288, Epilogue::kResidual, false},
    {4, 300, 4096, 12288, Epilogue::kResidual, false, kE4m3},
    {2, 2048, 6144, 4096, Epilogue::kStore, false, kE4m3, true},
};

}  // namespace

Result<std::vector<OpCase>> gemm_cases(GpuBackend& gpu, bool timed) {
  if (timed) return timed_cases(gpu);
  std::vector<OpCase> cases;
  for (const GemmCase& s : kBf16Cases) MET_TRY(add_all(gpu, s, false, cases));
  for (const GemmCase& s : kE4m3Cases) MET_TRY(add_all(gpu, s, false, cases));
  for (const GemmCase& s : kModelCases) MET_TRY(add_planned(gpu, s, false, cases));
  return cases;
}

}  // namespace met::gpu::check
