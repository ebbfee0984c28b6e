// The four projections of a layer one behind the other, as a step launches them: what an operation alone does not show is
// how much of the next one's weights arrives while the one in front ends. Timed only; each is checked in
// projection_cases.cpp.
#include <array>

#include "ops/cuda/projection.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

// Qwen3-8B.
constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kQkv = 6144;
constexpr std::int64_t kFfn = 12288;

struct Part {
  std::int64_t n, k;
  Epilogue epilogue;
};
constexpr std::array kParts{
    Part{kQkv, kHidden, Epilogue::kStore}, Part{kHidden, kHidden, Epilogue::kResidual},
    Part{2 * kFfn, kHidden, Epilogue::kSiluMul}, Part{kHidden, kFfn, Epilogue::kResidual}};

enum Buffer {
  kWeights,
  kCounts = kWeights + kParts.size(),
  kScales,
  kNorm,
  kScaled,
  kQkvOut,
  kGated,
  kResidualBuffer,
  kSquares,
  kCodes,  ///< E4M3: of scaled, q and gated, then their scales
  kCodeScales = kCodes + 3
};

using Plans = std::array<ops::cuda::ProjectionPlan, kParts.size()>;

/// What part i reads and writes; `squares` holds what the residual's last writer left.
ops::cuda::ProjectionTensors tensors_of(std::size_t i, const Plans& plans, std::span<const DevicePtr> p,
                                        bool e4m3) {
  constexpr float kEps = 1e-6F;
  const bool first = i == 0;
  const bool reads_norm = kParts[i].epilogue != Epilogue::kResidual;
  ops::cuda::ProjectionTensors t{.weights = p[kWeights + i], .counts = p[kCounts]};
  const std::array x{kScaled, kQkvOut, kScaled, kGated};
  t.x = p[x[i]];
  if (i == 1) t.ldx = kQkv;  // attention is left out: the first values of a row of q stand for its output
  if (e4m3) {
    constexpr std::array kReads{0, 1, 0, 2};
    constexpr std::array kWrites{-1, 0, 2, 0};
    t.weight_scales = p[kScales];
    t.x = p[static_cast<std::size_t>(kCodes + kReads[i])];
    t.x_scales = p[static_cast<std::size_t>(kCodeScales + kReads[i])];
    t.ldx = 0;
    if (kWrites[i] >= 0)
      t.coded = {
          .codes = reinterpret_cast<std::uint8_t*>(p[static_cast<std::size_t>(kCodes + kWrites[i])].value),
          .scales = reinterpret_cast<float*>(p[static_cast<std::size_t>(kCodeScales + kWrites[i])].value),
          .width = static_cast<std::int32_t>(kWrites[i] == 2 ? kFfn : kHidden),
          .rows = plans[i].columns};
  }
  if (reads_norm) {
    const int count = plans[first ? 3 : 1].squares_count;
    t.norm = {reinterpret_cast<float*>(p[kSquares].value), count, kEps};
    t.y = p[first ? kQkvOut : kGated];
    t.ldy = first ? kQkv : kFfn;
    return t;
  }
  t.residual = p[kResidualBuffer];
  t.next_norm = p[kNorm];
  if (!e4m3) t.scaled = p[kScaled];
  t.squares = p[kSquares];
  t.ldy = kHidden;
  return t;
}

std::vector<std::byte> repeated(Rng& rng, std::size_t bytes) {
  // E4M3 values of magnitude below 2, no NaN; a long period, so that rows differ.
  constexpr std::size_t kPeriod = 1000003;
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    values[i] = i < kPeriod ? static_cast<std::byte>(rng.next() & 0xbf) : values[i - kPeriod];
  return values;
}

Result<OpCase> layer(GpuBackend& gpu, int tokens, DType type) {
  const bool e4m3 = type == DType::kF8E4M3;
  Rng rng{static_cast<std::uint64_t>(tokens)};
  Plans plans;
  OpCase op{.op = e4m3 ? "projection layer e4m3" : "projection layer",
            .shape = std::to_string(tokens) + " tokens"};
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const Part& part = kParts[i];
    MET_ASSIGN(plans[i],
               ops::cuda::plan_projection(gpu, {.n = part.n,
                                                .k = part.k,
                                                .tokens = tokens,
                                                .tokens_max = tokens,
                                                .weights = type,
                                                .epilogue = part.epilogue,
                                                .coded = e4m3 && part.epilogue != Epilogue::kStore}));
    const auto values = static_cast<std::size_t>(part.n * part.k);
    op.buffers.push_back(e4m3 ? repeated(rng, values) : bytes_of(random_bf16(rng, values, 0.035)));
    op.bytes += static_cast<double>(values) * (e4m3 ? 1 : 2);
    op.flops += 2.0 * tokens * static_cast<double>(values);
  }
  const auto rows = static_cast<std::size_t>(tokens);
  const auto bf16 = [&](std::int64_t width) {
    return bytes_of(random_bf16(rng, rows * static_cast<std::size_t>(width), 1.0));
  };
  op.buffers.push_back(raw(std::vector{StepCounts{tokens, tokens, tokens, tokens}}));
  op.buffers.push_back(raw(std::vector<float>(static_cast<std::size_t>(2 * kFfn), 0.02F)));
  op.buffers.push_back(raw(std::vector<float>(static_cast<std::size_t>(kHidden), 1.0F)));
  for (const std::int64_t width : {kHidden, kQkv, kFfn, kHidden}) op.buffers.push_back(bf16(width));
  op.buffers.push_back(raw(std::vector<float>(rows * static_cast<std::size_t>(kHidden / 16), 8.0F)));
  for (const std::int64_t width : {kHidden, kHidden, kFfn})
    op.buffers.push_back(repeated(rng, rows * static_cast<std::size_t>(width)));
  const std::size_t columns = 32;
  for (const std::int64_t width : {kHidden, kHidden, kFfn})
    op.buffers.push_back(raw(std::vector<float>(static_cast<std::size_t>(width / 32) * columns, 0.02F)));
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    std::vector<KernelLaunch> launches;
    for (std::size_t i = 0; i < kParts.size(); ++i) {
      MET_ASSIGN(const KernelLaunch launch,
                 ops::cuda::projection_launch(plans[i], tensors_of(i, plans, p, e4m3)));
      launches.push_back(launch);
    }
    return launches;
  };
  return op;
}

}  // namespace

Result<std::vector<OpCase>> projection_layer_cases(GpuBackend& gpu, bool timed) {
  std::vector<OpCase> cases;
  if (!timed) return cases;
  for (const DType type : {DType::kBF16, DType::kF8E4M3})
    for (const int tokens : {1, 16, 32, 64, 128, 256}) {
      if (type == DType::kF8E4M3 && tokens > ops::cuda::kProjectionTokensE4m3) continue;
      MET_ASSIGN(OpCase made, layer(gpu, tokens, type));
      cases.push_back(std::move(made));
    }
  return cases;
}

}  // namespace met::gpu::check
