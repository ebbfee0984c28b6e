// Routers of mixture layers against FP64: choices, weights, and the order of the pairs.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/cuda/moe_router.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

struct Shape {
  int tokens, tokens_max, hidden, experts, top_k;
  bool normalises = false, renormalise = true;
};

enum Buffer : std::size_t {
  kX,
  kParts,
  kNormed,
  kRouter,
  kBegin,
  kTokens,
  kPlaces,
  kWeights,
  kCounts,
  kLogits,
  kFinished,
  kChoices
};

constexpr int kPartCount = 3;
constexpr float kEps = 1e-6F;

/// Values whose products and sums are exact in FP32, so that equal logits are equal everywhere: small integers.
std::vector<std::uint16_t> small_integers(Rng& rng, std::size_t count, int limit) {
  std::vector<std::uint16_t> out(count);
  for (auto& v : out)
    v = f32_to_bf16(static_cast<float>(static_cast<int>(rng.next() % (2 * limit + 1)) - limit));
  return out;
}

struct Oracle {
  std::vector<double> begin, tokens, places, weights, choices, normed;
};

/// `inverse`: 1 / rms of each row, or empty.
Oracle route(const Shape& s, const std::vector<double>& x, const std::vector<double>& router,
             const std::vector<double>& inverse) {
  const auto pairs_max = static_cast<std::size_t>(s.tokens_max * s.top_k);
  Oracle out{.begin = std::vector<double>(static_cast<std::size_t>(s.experts) + 1, 0.0),
             .tokens = std::vector<double>(pairs_max, -1.0),
             .places = std::vector<double>(pairs_max, -1.0),
             .weights = std::vector<double>(pairs_max, -1.0),
             .choices = std::vector<double>(pairs_max, -1.0),
             .normed = std::vector<double>(x.size(), 7.0)};
  std::vector<std::vector<std::pair<int, int>>> by_expert(
      static_cast<std::size_t>(s.experts));  // token, choice
  for (int t = 0; t < s.tokens; ++t) {
    const double scale = inverse.empty() ? 1.0 : inverse[static_cast<std::size_t>(t)];
    std::vector<double> logits(static_cast<std::size_t>(s.experts));
    for (int e = 0; e < s.experts; ++e) {
      double sum = 0;  // exact, so that equal logits stay equal
      for (int k = 0; k < s.hidden; ++k)
        sum += x[static_cast<std::size_t>(t * s.hidden + k)] *
               router[static_cast<std::size_t>(e * s.hidden + k)];
      logits[static_cast<std::size_t>(e)] = sum * scale;
    }
    std::vector<int> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int a, int b) {
      return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    const double max = logits[static_cast<std::size_t>(order[0])];
    double total = 0;
    double chosen = 0;
    for (const double l : logits) total += std::exp(l - max);
    for (int j = 0; j < s.top_k; ++j)
      chosen += std::exp(logits[static_cast<std::size_t>(order[static_cast<std::size_t>(j)])] - max);
    for (int j = 0; j < s.top_k; ++j) {
      const auto e = static_cast<std::size_t>(order[static_cast<std::size_t>(j)]);
      out.weights[static_cast<std::size_t>(t * s.top_k + j)] =
          std::exp(logits[e] - max) / (s.renormalise ? chosen : total);
      out.choices[static_cast<std::size_t>(t * s.top_k + j)] = static_cast<double>(e);
      by_expert[e].emplace_back(t, j);
    }
    if (inverse.empty()) continue;
    for (int k = 0; k < s.hidden; ++k) {
      const auto at = static_cast<std::size_t>(t * s.hidden + k);
      out.normed[at] = x[at] * scale;
    }
  }
  std::size_t place = 0;
  for (std::size_t e = 0; e < by_expert.size(); ++e) {
    out.begin[e] = static_cast<double>(place);
    for (const auto& [t, j] : by_expert[e]) {
      out.places[static_cast<std::size_t>(t * s.top_k + j)] = static_cast<double>(place);
      out.tokens[place++] = t;
    }
  }
  out.begin.back() = static_cast<double>(place);
  return out;
}

Result<OpCase> router_case(GpuBackend& gpu, const Shape& s, bool timed) {
  MET_ASSIGN(
      const auto plan,
      ops::cuda::plan_moe_router(
          gpu, {.hidden = s.hidden, .experts = s.experts, .top_k = s.top_k, .tokens_max = s.tokens_max}));
  Rng rng{static_cast<std::uint64_t>(s.tokens * 31 + s.hidden + s.experts)};
  const auto count = static_cast<std::size_t>(s.tokens_max * s.hidden);
  auto x = small_integers(rng, count, 2);
  for (std::size_t i = static_cast<std::size_t>(s.tokens * s.hidden); i < x.size(); ++i)
    x[i] = 0x7fc0;  // NaN
  const auto router = small_integers(rng, static_cast<std::size_t>(s.experts * s.hidden), 1);
  // Powers of two as means of squares: the scale is exact.
  std::vector<float> parts(static_cast<std::size_t>(s.tokens_max * kPartCount), NAN);
  std::vector<double> inverse;
  for (int t = 0; s.normalises && t < s.tokens; ++t) {
    const double root = std::exp2(static_cast<double>(2 + t % 3));
    for (int i = 0; i < kPartCount; ++i)
      parts[static_cast<std::size_t>(t * kPartCount + i)] =
          static_cast<float>(i < 2 ? root * root * s.hidden / 4 : root * root * s.hidden / 2);
    inverse.push_back(1 / std::sqrt(root * root + static_cast<double>(kEps)));
  }
  const auto pairs_max = static_cast<std::size_t>(s.tokens_max * s.top_k);
  const std::vector<std::int32_t> untouched(pairs_max, -1);
  const std::vector<std::uint16_t> sevens(count, f32_to_bf16(7.0F));
  OpCase op{.op = "moe_router",
            .shape = std::to_string(s.tokens) + "x" + std::to_string(s.hidden) + " " +
                     std::to_string(s.top_k) + " of " + std::to_string(s.experts) +
                     (s.normalises ? " normalises" : ""),
            .buffers = {raw(x), raw(parts), raw(sevens), raw(router),
                        raw(std::vector<std::int32_t>(static_cast<std::size_t>(s.experts) + 1, -1)),
                        raw(untouched), raw(untouched), raw(std::vector<float>(pairs_max, -1.0F)),
                        raw(std::vector<StepCounts>{{s.tokens, s.tokens, s.tokens, s.tokens}}),
                        std::vector<std::byte>(plan.logits_bytes()),
                        std::vector<std::byte>(plan.finished_bytes()), raw(untouched)},
            .scratch = {kLogits}};
  if (!timed) {
    const Oracle want = route(s, values_of(x), values_of(router), inverse);
    const Tolerance exact{"equal", 0, 0};
    if (plan.orders)
      op.outputs = {{.buffer = kBegin, .type = DType::kI32, .want = want.begin, .tolerance = exact},
                    {.buffer = kTokens, .type = DType::kI32, .want = want.tokens, .tolerance = exact},
                    {.buffer = kPlaces, .type = DType::kI32, .want = want.places, .tolerance = exact}};
    else
      op.outputs = {{.buffer = kChoices, .type = DType::kI32, .want = want.choices, .tolerance = exact}};
    op.outputs.insert(op.outputs.end(), {{.buffer = kWeights,
                                          .type = DType::kF32,
                                          .want = want.weights,
                                          .tolerance = {"exp in FP32", 1e-5, 1e-7}},
                                         {.buffer = kNormed,
                                          .type = DType::kBF16,
                                          .want = want.normed,
                                          .tolerance = {"one BF16 rounding", kBf16Rounding, 0}}});
  }
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const auto at = [&]<class T>(std::size_t i, T*) { return reinterpret_cast<T*>(p[i].value); };
    constexpr Bf16Bits* kBits = nullptr;
    constexpr std::int32_t* kInts = nullptr;
    constexpr float* kFloats = nullptr;
    const MoeRouterArgs args{
        .x = at(kX, kBits),
        .norm = {.parts = s.normalises ? at(kParts, kFloats) : nullptr, .count = kPartCount, .eps = kEps},
        .normed = at(kNormed, kBits),
        .router = at(kRouter, kBits),
        .pairs = {.begin = at(kBegin, kInts),
                  .tokens = at(kTokens, kInts),
                  .places = at(kPlaces, kInts),
                  .weights = at(kWeights, kFloats)},
        .choices = at(kChoices, kInts),
        .counts = at(kCounts, static_cast<StepCounts*>(nullptr)),
        .hidden = s.hidden,
        .experts = s.experts,
        .top_k = s.top_k,
        .renormalise = s.renormalise ? 1 : 0,
        .logits = at(kLogits, kFloats),
        .finished = at(kFinished, kInts)};
    return std::vector{ops::cuda::moe_router_launch(plan, args)};
  };
  op.bytes = 2.0 * (s.experts + s.tokens) * s.hidden;
  op.flops = 2.0 * s.tokens * s.experts * s.hidden;
  return op;
}

}  // namespace

Result<std::vector<OpCase>> moe_router_cases(GpuBackend& gpu, bool timed) {
  std::vector<OpCase> cases;
  const auto add = [&](const Shape& shape) -> Result<> {
    MET_ASSIGN(OpCase made, router_case(gpu, shape, timed));
    cases.push_back(std::move(made));
    return {};
  };
  if (timed) {
    for (const int tokens : {1, 8, 32, 128, 256, 8192}) MET_TRY(add({tokens, tokens, 2048, 128, 8}));
    return cases;
  }
  for (const bool normalises : {false, true}) {
    for (const int tokens : {0, 1, 2, 15, 16, 17, 100}) {
      MET_TRY(add({tokens, tokens + 5, 64, 8, 2, normalises}));
      MET_TRY(add({tokens, tokens + 40, 96, 13, 3, normalises, false}));
    }
    MET_TRY(add({64, 64, 2048, 128, 8, normalises}));
    MET_TRY(add({128, 128, 2048, 128, 8, normalises}));
    MET_TRY(add({200, 256, 4096, 100, 8, normalises, false}));
    MET_TRY(add({300, 300, 512, 128, 8, normalises}));
    MET_TRY(add({33, 1200, 64, 60, 4, normalises}));
    MET_TRY(add({1100, 1200, 64, 128, 8, normalises}));
    MET_TRY(add({3, 16, 128, 512, 32, normalises, false}));
    MET_TRY(add({5, 16, 32, 1, 1, normalises}));
  }
  return cases;
}

}  // namespace met::gpu::check
