// Inputs and FP64 oracles of the expert products and of their sum.
#include <algorithm>
#include <cmath>

#include "ops/cuda/moe.h"
#include "ops/cuda/quantise.h"
#include "tests/gpu/cuda_check/expert_matrix.h"

namespace met::gpu::check {
namespace {

constexpr std::uint16_t kNan = 0x7fff;

struct MoeShape {
  int tokens, tokens_max, experts, top_k;
  std::int64_t n, k;
  Epilogue epilogue;
  bool gathers;
  bool ordered = true;  ///< by the router
  ExpertStorage storage = ExpertStorage::kBf16;
};

/// Pairs as a router leaves them; experts of a token differ. Places of an expert are in descending order of tokens where the
/// router orders, else in ascending order, and a third of the tokens takes the same expert.
struct Pairs {
  std::vector<std::int32_t> begin, tokens, places, choices;
  std::vector<float> weights;
};

Pairs pairs_of(const MoeShape& s, Rng& rng) {
  std::vector<std::vector<std::pair<int, int>>> of_expert(static_cast<std::size_t>(s.experts));
  Pairs pairs;
  for (int t = 0; t < s.tokens; ++t) {
    std::vector<int> order(static_cast<std::size_t>(s.experts));
    for (int e = 0; e < s.experts; ++e) order[static_cast<std::size_t>(e)] = e;
    for (std::size_t j = 0; j < static_cast<std::size_t>(s.top_k); ++j) {
      const bool common = !s.ordered && j == 0 && t % 3 == 1;
      std::swap(order[j], order[common ? order.size() / 2 : j + rng.next() % (order.size() - j)]);
      pairs.choices.push_back(order[j]);
      of_expert[static_cast<std::size_t>(order[j])].push_back({t, static_cast<int>(j)});
      pairs.weights.push_back(static_cast<float>(rng.uniform(0.02, 0.5)));
    }
  }
  pairs.places.resize(pairs.weights.size() + 1);
  pairs.weights.push_back(0);
  pairs.choices.push_back(1 << 24);  // beyond the pairs, as the other lists' last
  pairs.begin.push_back(0);
  for (auto& of : of_expert) {
    if (s.ordered) std::ranges::reverse(of);
    for (const auto& [t, j] : of) {
      pairs.places[static_cast<std::size_t>(t * s.top_k + j)] =
          static_cast<std::int32_t>(pairs.tokens.size());
      pairs.tokens.push_back(t);
    }
    pairs.begin.push_back(static_cast<std::int32_t>(pairs.tokens.size()));
  }
  pairs.tokens.push_back(1 << 24);  // beyond the pairs
  return pairs;
}

double activate(double gate, Epilogue epilogue) {
  if (epilogue == Epilogue::kSiluMul) return gate / (1.0 + std::exp(-gate));
  return 0.5 * gate * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (gate + 0.044715 * gate * gate * gate)));
}

/// Rows that the products read: BF16, or E4M3 with a scale for each 128 of k.
struct XRows {
  std::vector<std::byte> bytes;
  std::vector<float> scales;  // [ceil(k / 128), ld]
  std::vector<double> values;
  int ld = 0;
};

XRows x_rows_of(const MoeShape& s, std::int64_t rows, Rng& rng) {
  const auto count = static_cast<std::size_t>((rows + 2) * s.k);
  if (s.storage == ExpertStorage::kBf16) {
    auto x = random_bf16(rng, count, 2.0);
    std::fill(x.begin() + rows * s.k, x.end(), kNan);
    return {.bytes = bytes_of(x), .scales = {0.0F}, .values = values_of(x)};
  }
  constexpr std::uint64_t kCodes = 0x60;  // up to 30 in magnitude
  XRows out{.bytes = {},
            .scales = {},
            .values = {},
            .ld = ops::cuda::quantise_scales_ld(static_cast<int>(rows) + 1)};
  const std::int64_t blocks = (s.k + 127) / 128;
  for (std::int64_t i = 0; i < blocks * out.ld; ++i)
    out.scales.push_back(i % out.ld < rows ? static_cast<float>(rng.uniform(0.05, 0.15)) : NAN);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / s.k;
    const std::int64_t block = static_cast<std::int64_t>(i) % s.k / 128;
    const std::uint64_t bits = rng.next();
    const auto code = static_cast<std::uint8_t>(row < rows ? bits % kCodes | (bits >> 32 & 0x80) : 0x7f);
    out.bytes.push_back(static_cast<std::byte>(code));
    out.values.push_back(static_cast<double>(f8e4m3_to_f32(code)) *
                         static_cast<double>(out.scales[static_cast<std::size_t>(block * out.ld + row)]));
  }
  return out;
}

Tolerance tolerance_of(const MoeShape& s) {
  if (s.storage == ExpertStorage::kBf16) return {"one BF16 rounding, FP32 sums", kBf16Rounding, 0x1p-14};
  if (s.epilogue == Epilogue::kStore)
    return {"one BF16 rounding, 13-bit sums over 128", kBf16Rounding, 1.2e-2};
  return {"one BF16 rounding, 13-bit sums over 128, times up to 4", kBf16Rounding, 4.8e-2};
}

Result<OpCase> products(GpuBackend& gpu, const MoeShape& s, bool timed) {
  Rng rng{static_cast<std::uint64_t>(s.n * 3 + s.k + s.tokens)};
  const Pairs pairs = pairs_of(s, rng);
  const bool gated = s.epilogue != Epilogue::kStore;
  const std::int64_t count = static_cast<std::int64_t>(s.tokens) * s.top_k;
  const std::int64_t ldy = gated ? s.n / 2 : s.n;
  const std::int64_t x_rows = s.gathers ? s.tokens : count;
  const ExpertMatrix weights(s.storage, gated, s.experts, s.n, s.k, rng,
                             1.5 / std::sqrt(static_cast<double>(s.k)));
  const XRows x = x_rows_of(s, x_rows, rng);
  const auto y = random_bf16(rng, static_cast<std::size_t>((count + 2) * ldy), 1.0);
  OpCase op{.op = "moe_gemm" + name_of(s.storage),
            .shape = std::to_string(s.tokens) + "x" + std::to_string(s.top_k) + "/" +
                     std::to_string(s.experts) + " " + std::to_string(s.n) + "x" + std::to_string(s.k) +
                     (gated ? " gated" : "") + (s.ordered ? "" : " orders"),
            .buffers = {bytes_of(y), weights.bytes(), x.bytes, raw(pairs.begin), raw(pairs.tokens),
                        raw(std::vector<StepCounts>{{s.tokens, s.tokens, 0, s.tokens}}), raw(pairs.choices),
                        raw(std::vector<std::int32_t>(pairs.places.size(), -1)), raw(weights.scales()),
                        raw(x.scales)},
            .outputs = {{.buffer = 0, .tolerance = tolerance_of(s)}}};
  if (!timed && !s.ordered) {
    std::vector<double> places(pairs.places.size(), -1.0);
    if (s.gathers) std::ranges::copy(pairs.places.begin(), pairs.places.end() - 1, places.begin());
    op.outputs.push_back(
        {.buffer = 7, .type = DType::kI32, .want = std::move(places), .tolerance = {"equal", 0, 0}});
  }
  op.oracle = [=](std::vector<Output>& outputs) {
    outputs[0].want = values_of(y);
    std::vector<double> sums(static_cast<std::size_t>(s.n));
    for (int e = 0; e < s.experts; ++e)
      for (int p = pairs.begin[static_cast<std::size_t>(e)]; p < pairs.begin[static_cast<std::size_t>(e) + 1];
           ++p) {
        const double* row =
            x.values.data() + (s.gathers ? pairs.tokens[static_cast<std::size_t>(p)] : p) * s.k;
        for (std::int64_t n = 0; n < s.n; ++n) {
          double sum = 0;
          for (std::int64_t k = 0; k < s.k; ++k) sum += weights.value(e, n, k) * row[k];
          sums[static_cast<std::size_t>(n)] = sum;
        }
        for (std::int64_t n = 0; n < ldy; ++n) {
          const std::int64_t gate = n / 8 * 16 + n % 8;
          outputs[0].want[static_cast<std::size_t>(p * ldy + n)] =
              gated ? activate(sums[static_cast<std::size_t>(gate)], s.epilogue) *
                          sums[static_cast<std::size_t>(gate + 8)]
                    : sums[static_cast<std::size_t>(n)];
        }
      }
  };
  MET_ASSIGN(const auto plan, ops::cuda::plan_moe_gemm(gpu, {.n = s.n,
                                                             .k = s.k,
                                                             .experts = s.experts,
                                                             .top_k = s.top_k,
                                                             .tokens = s.tokens_max,
                                                             .epilogue = s.epilogue,
                                                             .weights = weights.type()}));
  const bool e4m3 = weights.e4m3();
  const bool blocks = weights.block_scales();
  const std::int32_t ld = x.ld;
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const auto ints = [&](std::size_t i) { return reinterpret_cast<std::int32_t*>(p[i].value); };
    MET_ASSIGN(const DeviceTensorMap map, ops::cuda::moe_weights_map(plan, p[1]));
    return std::vector{ops::cuda::moe_gemm_launch(plan, {.weights = map,
                                                         .weight_scales = e4m3 ? p[8] : DevicePtr{},
                                                         .block_scales = blocks,
                                                         .x = p[2],
                                                         .x_scales = e4m3 ? p[9] : DevicePtr{},
                                                         .x_scales_ld = ld,
                                                         .pairs = {.begin = s.ordered ? ints(3) : nullptr,
                                                                   .tokens = s.ordered ? ints(4) : nullptr,
                                                                   .places = ints(7),
                                                                   .weights = nullptr},
                                                         .choices = s.ordered ? DevicePtr{} : p[6],
                                                         .counts = p[5],
                                                         .y = p[0],
                                                         .ldy = ldy,
                                                         .gathers = s.gathers})};
  };
  int touched = 0;
  for (std::size_t e = 0; e + 1 < pairs.begin.size(); ++e)
    touched += pairs.begin[e + 1] > pairs.begin[e] ? 1 : 0;
  op.bytes = weights.bytes_each() * (static_cast<double>(touched) * static_cast<double>(s.n * s.k) +
                                     static_cast<double>(x_rows * s.k)) +
             2.0 * static_cast<double>(count * ldy);
  op.flops = 2.0 * static_cast<double>(count) * static_cast<double>(s.n * s.k);
  return op;
}

Result<OpCase> combine(GpuBackend& gpu, int tokens, int tokens_max, std::int64_t dim, int top_k, bool timed) {
  Rng rng{static_cast<std::uint64_t>(dim + tokens)};
  constexpr float kEps = 1e-6F;
  const MoeShape s{tokens, tokens_max, std::max(16, 2 * top_k), top_k, 0, 0, Epilogue::kStore, false};
  const Pairs pairs = pairs_of(s, rng);
  const auto values = static_cast<std::size_t>(tokens_max * dim);
  const auto residual = random_bf16(rng, values, 2.0);
  const auto y =
      random_bf16(rng, static_cast<std::size_t>(tokens * top_k + 1) * static_cast<std::size_t>(dim), 2.0);
  const auto before = random_bf16(rng, values, 1.0);
  std::vector<float> norm, next, squares(static_cast<std::size_t>(tokens_max), 7.0F);
  for (std::int64_t i = 0; i < dim; ++i) {
    norm.push_back(static_cast<float>(rng.uniform(0.5, 1.5)));
    next.push_back(static_cast<float>(rng.uniform(0.5, 1.5)));
  }
  const StepCounts counts{tokens, tokens, 0, tokens};
  OpCase op{
      .op = "moe_combine",
      .shape = std::to_string(tokens) + "x" + std::to_string(top_k) + "x" + std::to_string(dim),
      .buffers = {bytes_of(residual), bytes_of(before), bytes_of(before), raw(squares), bytes_of(y),
                  raw(pairs.places), raw(pairs.weights), raw(norm), raw(next), raw(std::vector{counts})}};
  // What follows h sees it as rounded, and h may round either way where it lies between two values.
  const Tolerance twice{"two BF16 roundings", 2 * kBf16Rounding + 0x1p-12, 0x1p-12};
  op.outputs = {
      {.buffer = 0, .tolerance = {"one BF16 rounding", kBf16Rounding, 0x1p-14}},
      {.buffer = 1, .tolerance = twice},
      {.buffer = 2, .tolerance = twice},
      {.buffer = 3, .type = DType::kF32, .tolerance = {"FP32 sums of rounded values", 0x1p-8, 0x1p-12}}};
  if (!timed) {
    for (std::size_t i = 0; i < 3; ++i) op.outputs[i].want = values_of(i == 0 ? residual : before);
    op.outputs[3].want.assign(squares.begin(), squares.end());
    const auto ys = values_of(y);
    for (int t = 0; t < tokens; ++t) {
      double sum = 0;
      double* h = op.outputs[0].want.data() + t * dim;
      for (std::int64_t i = 0; i < dim; ++i) {
        for (int j = 0; j < top_k; ++j) {
          const auto pair = static_cast<std::size_t>(t * top_k + j);
          h[i] += static_cast<double>(pairs.weights[pair]) *
                  ys[static_cast<std::size_t>(pairs.places[pair] * dim + i)];
        }
        sum += h[i] * h[i];
      }
      const double scale = 1.0 / std::sqrt(sum / static_cast<double>(dim) + static_cast<double>(kEps));
      for (std::int64_t i = 0; i < dim; ++i) {
        const auto at = static_cast<std::size_t>(t * dim + i);
        op.outputs[1].want[at] = h[i] * scale * static_cast<double>(norm[static_cast<std::size_t>(i)]);
        op.outputs[2].want[at] = h[i] * static_cast<double>(next[static_cast<std::size_t>(i)]);
      }
      op.outputs[3].want[static_cast<std::size_t>(t)] = sum;
    }
  }
  MET_ASSIGN(const auto plan, ops::cuda::plan_moe_combine(gpu, dim, tokens_max));
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const auto bits = [&](std::size_t i) { return reinterpret_cast<Bf16Bits*>(p[i].value); };
    const auto floats = [&](std::size_t i) { return reinterpret_cast<float*>(p[i].value); };
    const MoeCombineArgs args{
        .residual = bits(0),
        .y = bits(4),
        .pairs = {nullptr, nullptr, reinterpret_cast<std::int32_t*>(p[5].value), floats(6)},
        .norm = floats(7),
        .normed = bits(1),
        .next_norm = floats(8),
        .scaled = bits(2),
        .squares = floats(3),
        .counts = reinterpret_cast<const StepCounts*>(p[9].value),
        .dim = dim,
        .top_k = top_k,
        .eps = kEps};
    return std::vector{ops::cuda::moe_combine_launch(plan, args)};
  };
  op.bytes = 2.0 * static_cast<double>(dim) * tokens * (top_k + 4);
  return op;
}

}  // namespace

Result<std::vector<OpCase>> moe_cases(GpuBackend& gpu, bool timed) {
  constexpr auto kStore = Epilogue::kStore;
  constexpr auto kSilu = Epilogue::kSiluMul;
  std::vector<OpCase> cases;
  const auto add = [&](const MoeShape& s) -> Result<> {
    MET_ASSIGN(OpCase made, products(gpu, s, timed));
    cases.push_back(std::move(made));
    return {};
  };
  if (timed) {
    // Qwen3-30B-A3B at 128 tokens; the others with a quarter of its experts and of its tokens.
    for (const ExpertStorage storage : {ExpertStorage::kBf16, ExpertStorage::kE4m3Rows}) {
      MET_TRY(add({128, 128, 128, 8, 1536, 2048, kSilu, true, false, storage}));
      MET_TRY(add({128, 128, 128, 8, 2048, 768, kStore, false, false, storage}));
      for (const int tokens : {8, 64, 512, 2048}) {
        MET_TRY(add({tokens, tokens, 32, 8, 1536, 2048, kSilu, true, true, storage}));
        MET_TRY(add({tokens, tokens, 32, 8, 2048, 768, kStore, false, true, storage}));
      }
    }
    for (const int tokens : {1, 128, 8192}) {
      MET_ASSIGN(OpCase made, combine(gpu, tokens, tokens, 2048, 8, true));
      cases.push_back(std::move(made));
    }
    return cases;
  }
  // From few places an expert to many: every entry, with experts that have none and tails of n, k and places.
  for (const ExpertStorage storage :
       {ExpertStorage::kBf16, ExpertStorage::kE4m3Rows, ExpertStorage::kE4m3Blocks}) {
    const std::int64_t odd = storage == ExpertStorage::kBf16 ? 8 : 16;
    for (const int tokens : {0, 1, 5, 33, 70, 150})
      for (const Epilogue epilogue : {kStore, kSilu, Epilogue::kGeluMul}) {
        const bool gathers = epilogue != kStore;
        MET_TRY(add({tokens, std::max(tokens, 1), 6, 2, 96, 64 + odd, epilogue, gathers, true, storage}));
        MET_TRY(add({tokens, std::max(tokens, 1), 40, 4, 80, 320, epilogue, gathers, true, storage}));
      }
    // Pairs that the kernel orders; with twice as many as experts or more, it guesses its first tiles.
    for (const int tokens : {0, 1, 5, 20, 33, 70, 150, 256})
      for (const Epilogue epilogue : {kStore, kSilu}) {
        const bool gathers = epilogue != kStore;
        MET_TRY(add({tokens, std::max(tokens, 1), 6, 2, 96, 64 + odd, epilogue, gathers, false, storage}));
        MET_TRY(add({tokens, std::max(tokens, 1), 40, 4, 80, 320, epilogue, gathers, false, storage}));
      }
    MET_TRY(add({40, 64, 128, 8, 1536, 128 + odd, kSilu, true, false, storage}));
    MET_TRY(add({100, 128, 128, 8, 320, 128 + odd, kSilu, true, false, storage}));
    MET_TRY(add({100, 128, 128, 8, 320, 128 + odd, kStore, false, false, storage}));
    MET_TRY(add({256, 256, 64, 8, 336, 768, kSilu, true, false, storage}));
    MET_TRY(add({256, 256, 60, 8, 1040, 64, kStore, true, false, storage}));
    for (const Epilogue epilogue : {kStore, kSilu})
      MET_TRY(add({500, 500, 6, 2, 144, 128 + odd, epilogue, epilogue != kStore, true, storage}));
    MET_TRY(add({300, 300, 6, 2, 528, 384, kSilu, true, true, storage}));
    MET_TRY(add({9, 9, 128, 8, 1536, 256, kSilu, true, true, storage}));
    MET_TRY(add({3, 3, 12, 2, 2048, 768, kStore, false, true, storage}));
  }
  for (const int tokens : {0, 1, 7})
    for (const auto& [dim, top_k] :
         std::initializer_list<std::pair<std::int64_t, int>>{{64, 2}, {2048, 8}, {512, 11}, {8192, 24}}) {
      MET_ASSIGN(OpCase made, combine(gpu, tokens, tokens + 2, dim, top_k, false));
      cases.push_back(std::move(made));
    }
  return cases;
}

}  // namespace met::gpu::check
