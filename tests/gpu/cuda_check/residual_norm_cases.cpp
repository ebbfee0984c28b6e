// Inputs and FP64 oracle of the residual stream's norms.
#include <cmath>
#include <limits>

#include "ops/cuda/residual_norm.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

constexpr float kEps = 1e-6F;
constexpr std::uint16_t kNan = 0x7fc0;
constexpr std::size_t kLeast = 8;  // values of a tensor that is not used

struct NormShape {
  int rows, rows_max;
  std::int64_t dim;
  bool branch, norm, next, gather;
  double magnitude = 1;
};

struct NormInputs {
  std::vector<std::uint16_t> residual, branch, normed, scaled;
  std::vector<float> post_norm, norm, next_norm, squares;
  std::vector<std::int32_t> gather;
};

/// Tensors that the case does not use are empty where it is timed.
NormInputs inputs_of(const NormShape& s, bool timed) {
  Rng rng{static_cast<std::uint64_t>(s.dim * 131 + s.rows)};
  NormInputs in;
  const auto values = static_cast<std::size_t>(s.rows_max * s.dim);
  in.residual = random_bf16(rng, values, s.magnitude);
  const auto values_if = [&](bool used) { return used || !timed ? values : kLeast; };
  in.branch = random_bf16(rng, values_if(s.branch), s.magnitude);
  in.normed = random_bf16(rng, values_if(s.norm), 2.0);
  in.scaled = random_bf16(rng, values_if(s.next), 2.0);
  if (!s.gather && !timed)
    for (std::size_t i = static_cast<std::size_t>(s.rows * s.dim); i < values; ++i)
      in.residual[i] = in.branch[i] = kNan;
  for (std::int64_t d = 0; d < s.dim; ++d)
    for (auto* weights : {&in.post_norm, &in.norm, &in.next_norm})
      weights->push_back(static_cast<float>(rng.uniform(-2, 2)));
  in.squares.assign(static_cast<std::size_t>(s.rows_max), -1.0F);
  for (int r = 0; r < s.rows_max; ++r) in.gather.push_back(s.rows_max - 1 - r);
  return in;
}

/// residual, normed, scaled, squares.
void oracle(const NormShape& s, const NormInputs& in, std::span<Output> outputs) {
  outputs[0].want = values_of(in.residual);
  outputs[1].want = values_of(in.normed);
  outputs[2].want = values_of(in.scaled);
  outputs[3].want.assign(in.squares.begin(), in.squares.end());
  const auto branches = values_of(in.branch);
  const auto inverse_rms = [&](const double* x) {
    double sum = 0;
    for (std::int64_t d = 0; d < s.dim; ++d) sum += x[d] * x[d];
    return 1.0 / std::sqrt(sum / static_cast<double>(s.dim) + static_cast<double>(kEps));
  };
  for (int r = 0; r < s.rows; ++r) {
    const std::int64_t t = s.gather ? in.gather[static_cast<std::size_t>(r)] : r;
    double* h = outputs[0].want.data() + t * s.dim;
    if (s.branch) {
      const double* branch = branches.data() + t * s.dim;
      const double scale = inverse_rms(branch);
      for (std::int64_t d = 0; d < s.dim; ++d)
        h[d] += branch[d] * scale * static_cast<double>(in.post_norm[static_cast<std::size_t>(d)]);
    }
    const double scale = inverse_rms(h);
    double squares = 0;
    for (std::int64_t d = 0; d < s.dim; ++d) {
      const auto w = static_cast<std::size_t>(d);
      squares += h[d] * h[d];
      if (s.norm)
        outputs[1].want[static_cast<std::size_t>(r * s.dim + d)] =
            h[d] * scale * static_cast<double>(in.norm[w]);
      if (s.next)
        outputs[2].want[static_cast<std::size_t>(t * s.dim + d)] =
            h[d] * static_cast<double>(in.next_norm[w]);
    }
    if (s.next) outputs[3].want[static_cast<std::size_t>(t)] = squares;
  }
}

Result<OpCase> residual_norm(GpuBackend& gpu, const NormShape& s, bool timed) {
  const NormInputs in = inputs_of(s, timed);
  const StepCounts counts{s.gather ? s.rows_max : s.rows, 0, s.rows, 0};
  const double cancelled = s.branch ? 0x1p-18 * (s.magnitude + 4.0) : 0.0;  // terms that may cancel in h
  const double rounding = (s.branch ? 2 : 1) * kBf16Rounding;
  OpCase op{.op = "residual_norm",
            .shape = std::to_string(s.rows) + "x" + std::to_string(s.dim) + (s.branch ? " branch" : "") +
                     (s.norm ? " norm" : "") + (s.next ? " next" : "") + (s.gather ? " gather" : ""),
            .buffers = {bytes_of(in.residual), bytes_of(in.branch), raw(in.post_norm), raw(in.norm),
                        bytes_of(in.normed), raw(in.next_norm), bytes_of(in.scaled), raw(in.squares),
                        raw(in.gather), raw(std::vector{counts})},
            .outputs = {
                {.buffer = 0,
                 .tolerance = s.branch ? Tolerance{"one BF16 rounding, FP32 sums", kBf16Rounding, cancelled}
                                       : Tolerance{"untouched", 0, 0}},
                {.buffer = 4, .tolerance = {"BF16 roundings, FP32 sums", rounding, s.branch ? 0x1p-16 : 0.0}},
                {.buffer = 6, .tolerance = {"BF16 roundings", rounding, 2 * cancelled}},
                {.buffer = 7,
                 .type = DType::kF32,
                 .tolerance = {"FP32 sums of rounded values", s.branch ? 0x1p-7 : 0x1p-18, 0}}}};
  if (!timed) oracle(s, in, op.outputs);
  MET_ASSIGN(const auto plan, ops::cuda::plan_residual_norm(
                                  gpu, {.dim = s.dim, .rows_max = s.gather ? s.rows + 2 : s.rows_max}));
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const auto values = [&](std::size_t i) { return reinterpret_cast<Bf16Bits*>(p[i].value); };
    const auto floats = [&](std::size_t i) { return reinterpret_cast<float*>(p[i].value); };
    return std::vector{ops::cuda::residual_norm_launch(
        plan, {.residual = values(0),
               .branch = s.branch ? values(1) : nullptr,
               .post_norm = floats(2),
               .norm = s.norm ? floats(3) : nullptr,
               .normed = values(4),
               .next_norm = s.next ? floats(5) : nullptr,
               .scaled = values(6),
               .squares = s.next ? floats(7) : nullptr,
               .gather = s.gather ? reinterpret_cast<const std::int32_t*>(p[8].value) : nullptr,
               .counts = reinterpret_cast<const StepCounts*>(p[9].value),
               .dim = s.dim,
               .eps = kEps})};
  };
  op.bytes = 2.0 * static_cast<double>(s.dim) * s.rows * (1 + 2 * s.branch + s.norm + s.next);
  return op;
}

}  // namespace

Result<std::vector<OpCase>> residual_norm_cases(GpuBackend& gpu, bool timed) {
  std::vector<NormShape> shapes;
  if (timed) {
    for (const int n : {1, 16, 256}) shapes.push_back({n, n, 4096, true, false, true, false});
    for (const int n : {8192, 16384}) shapes.push_back({n, n, 4096, false, true, false, false});
    shapes.push_back({8192, 8192, 4096, true, true, false, false});
    shapes.push_back({8192, 8192, 8192, true, true, false, false});
    shapes.push_back({256, 16384, 4096, false, true, false, true});
  } else {
    for (const int n : {0, 1, 7, 300})
      for (const std::int64_t dim : {8, 64, 576, 4096, 8192, 12288})
        for (const bool branch : {false, true})
          shapes.push_back({n, n + 2, dim, branch, n != 7, n != 1, false,
                            n == 7   ? 1e4
                            : n == 1 ? 1e-3
                                     : 1.0});
    shapes.push_back({5, 40, 2560, false, true, false, true});
    shapes.push_back({5, 40, 2560, true, true, true, true});
    shapes.push_back({300, 310, 5376, true, true, true, true});
  }
  std::vector<OpCase> cases;
  for (const NormShape& s : shapes) {
    MET_ASSIGN(OpCase op, residual_norm(gpu, s, timed));
    cases.push_back(std::move(op));
  }
  return cases;
}

}  // namespace met::gpu::check
