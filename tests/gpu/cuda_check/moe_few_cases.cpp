// A mixture-of-experts layer of few tokens, router to residual, against FP64.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/cuda/moe_few.h"
#include "tests/gpu/cuda_check/expert_matrix.h"

namespace met::gpu::check {
namespace {

using ops::cuda::MoeFewShape;

/// Which launches a case consists of.
enum Part : unsigned { kLogitsPart = 1, kGateUpPart = 2, kDownPart = 4, kAllParts = 7 };

enum Buffer : std::size_t {
  kX,
  kParts,
  kRouter,
  kGateUp,
  kDown,
  kNormed,
  kLogits,
  kY,
  kResidual,
  kNextNorm,
  kScaled,
  kSquares,
  kCounts,
  kGateUpScales,
  kDownScales
};

constexpr int kPartCount = 3;
constexpr float kEps = 1e-6F;
constexpr std::uint16_t kNan = 0x7fc0;

std::size_t product(std::initializer_list<int> sizes) {
  std::size_t out = 1;
  for (const int size : sizes) out *= static_cast<std::size_t>(size);
  return out;
}

double bf16_value(double v) { return bf16_to_f32(f32_to_bf16(static_cast<float>(v))); }

double activate(double gate, Epilogue epilogue) {
  if (epilogue == Epilogue::kSiluMul) return gate / (1.0 + std::exp(-gate));
  return 0.5 * gate * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (gate + 0.044715 * gate * gate * gate)));
}

/// Small integers and means of squares that are powers of two: logits and normalised rows are exact, choices certain.
struct Inputs {
  std::vector<std::uint16_t> x, router, residual;
  ExpertMatrix gate_up, down;
  std::vector<float> parts, next_norm;
  std::vector<double> inverse;
};

Inputs inputs_of(const MoeFewShape& s, int tokens, ExpertStorage storage) {
  Rng rng{product({s.hidden, 3}) + product({tokens, 7}) + static_cast<std::uint64_t>(s.experts)};
  const auto integers = [&](std::size_t count, int limit) {
    std::vector<std::uint16_t> out(count);
    for (auto& v : out)
      v = f32_to_bf16(static_cast<float>(static_cast<int>(rng.next() % (2 * limit + 1)) - limit));
    return out;
  };
  Inputs in{.x = integers(product({s.tokens, s.hidden}), 3),
            .router = integers(product({s.experts, s.hidden}), 1),
            .residual = random_bf16(rng, product({s.tokens, s.hidden}), 2.0),
            .gate_up = {storage, true, s.experts, std::int64_t{2} * s.width, s.hidden, rng,
                        1.5 / std::sqrt(s.hidden)},
            .down = {storage, false, s.experts, s.hidden, s.width, rng, 3.0 / std::sqrt(s.width)},
            .parts = std::vector<float>(product({s.tokens, kPartCount}), NAN),
            .next_norm = {},
            .inverse = {}};
  std::fill(in.x.begin() + tokens * s.hidden, in.x.end(), kNan);
  for (int i = 0; i < s.hidden; ++i) in.next_norm.push_back(static_cast<float>(rng.uniform(0.5, 1.5)));
  for (int t = 0; t < tokens; ++t) {
    const double root = std::exp2(static_cast<double>(1 + t % 2));
    for (int i = 0; i < kPartCount; ++i)
      in.parts[product({t, kPartCount}) + static_cast<std::size_t>(i)] =
          static_cast<float>(root * root * s.hidden / (i < 2 ? 4 : 2));
    in.inverse.push_back(1 / std::sqrt(root * root + static_cast<double>(kEps)));
  }
  return in;
}

struct Choice {
  std::vector<int> experts;     // [tokens, top_k]
  std::vector<double> weights;  // [tokens, top_k]
  std::vector<float> logits;    // [tokens_max, experts]
};

Choice choose(const MoeFewShape& s, int tokens, const Inputs& in) {
  Choice out{.experts = {}, .weights = {}, .logits = std::vector<float>(product({s.tokens, s.experts}), NAN)};
  const auto x = values_of(in.x);
  const auto router = values_of(in.router);
  for (int t = 0; t < tokens; ++t) {
    std::vector<double> logits;
    for (int e = 0; e < s.experts; ++e)
      logits.push_back(std::inner_product(x.begin() + t * s.hidden, x.begin() + (t + 1) * s.hidden,
                                          router.begin() + e * s.hidden, 0.0) *
                       in.inverse[static_cast<std::size_t>(t)]);
    std::ranges::copy(logits, out.logits.begin() + t * s.experts);
    std::vector<int> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto logit = [&](int e) { return logits[static_cast<std::size_t>(e)]; };
    std::ranges::stable_sort(order, [&](int a, int b) { return logit(a) > logit(b); });
    double total = 0;
    double chosen = 0;
    for (std::size_t j = 0; j < order.size(); ++j) {
      const double p = std::exp(logit(order[j]) - logit(order[0]));
      total += p;
      if (j < static_cast<std::size_t>(s.top_k)) chosen += p;
    }
    for (int j = 0; j < s.top_k; ++j) {
      const int e = order[static_cast<std::size_t>(j)];
      out.experts.push_back(e);
      out.weights.push_back(std::exp(logit(e) - logit(order[0])) / (s.renormalise ? chosen : total));
    }
  }
  return out;
}

struct Want {
  std::vector<double> normed, y, residual, scaled, squares;
};

Want oracle(const MoeFewShape& s, int tokens, int squares_count, const Inputs& in, const Choice& choice) {
  Want want{.normed = std::vector<double>(product({s.tokens, s.hidden}), NAN),
            .y = std::vector<double>(product({s.tokens, s.top_k, s.width}), NAN),
            .residual = values_of(in.residual),
            .scaled = std::vector<double>(product({s.tokens, s.hidden}), NAN),
            .squares = std::vector<double>(product({s.tokens, squares_count}), NAN)};
  // Pairs lie in order of experts, then of tokens.
  std::vector<std::size_t> order(choice.experts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t pair) { return choice.experts[pair]; });
  std::vector<std::size_t> places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) places[order[i]] = i;
  const auto x = values_of(in.x);
  const auto dot = [](const ExpertMatrix& w, int expert, int row, std::span<const double> v) {
    double sum = 0;
    for (std::size_t i = 0; i < v.size(); ++i)
      sum += w.value(expert, row, static_cast<std::int64_t>(i)) * v[i];
    return sum;
  };
  for (int t = 0; t < tokens; ++t) {
    const auto row = product({t, s.hidden});
    for (std::size_t i = row; i < row + product({s.hidden}); ++i)
      want.normed[i] = bf16_value(x[i] * in.inverse[static_cast<std::size_t>(t)]);
    const std::span<const double> normed(want.normed.data() + row, product({s.hidden}));
    for (int j = 0; j < s.top_k; ++j) {
      const auto pair = product({t, s.top_k}) + static_cast<std::size_t>(j);
      const int e = choice.experts[pair];
      std::vector<double> y;
      for (int i = 0; i < s.width; ++i) {
        const int gate = i / 8 * 16 + i % 8;
        y.push_back(bf16_value(activate(dot(in.gate_up, e, gate, normed), s.activation) *
                               dot(in.gate_up, e, gate + 8, normed)));
      }
      std::ranges::copy(y, want.y.begin() + static_cast<std::ptrdiff_t>(places[pair] * y.size()));
      for (int n = 0; n < s.hidden; ++n)
        want.residual[row + static_cast<std::size_t>(n)] += choice.weights[pair] * dot(in.down, e, n, y);
    }
    for (int n = 0; n < s.hidden; ++n) {
      const auto at = row + static_cast<std::size_t>(n);
      want.scaled[at] = want.residual[at] * static_cast<double>(in.next_norm[static_cast<std::size_t>(n)]);
      double& squares = want.squares[product({t, squares_count}) + static_cast<std::size_t>(n / 16)];
      squares = (n % 16 == 0 ? 0 : squares) + want.residual[at] * want.residual[at];
    }
  }
  return want;
}

/// How many experts any token chose.
std::size_t touched(const Choice& choice) {
  auto experts = choice.experts;
  std::ranges::sort(experts);
  return experts.size() - std::ranges::unique(experts).size();
}

double bytes_of_parts(const MoeFewShape& s, int tokens, std::size_t experts, unsigned parts, double each) {
  const double matrix = each * static_cast<double>(experts) * s.hidden * s.width;
  double bytes = 2.0 * tokens * s.hidden;
  if ((parts & kLogitsPart) != 0) bytes += 2.0 * s.experts * s.hidden;
  if ((parts & kGateUpPart) != 0) bytes += 2 * matrix;
  if ((parts & kDownPart) != 0) bytes += matrix;
  return bytes;
}

struct Case {
  MoeFewShape shape;
  int tokens = 0;
  unsigned parts = kAllParts;
  ExpertStorage storage = ExpertStorage::kBf16;
};

Result<OpCase> layer_case(GpuBackend& gpu, const Case& c, bool timed) {
  MoeFewShape s = c.shape;
  const int tokens = c.tokens;
  const unsigned parts = c.parts;
  const Inputs in = inputs_of(s, tokens, c.storage);
  s.gate_up = in.gate_up.type();
  s.down = in.down.type();
  MET_ASSIGN(const auto plan, ops::cuda::plan_moe_few(gpu, s));
  const Choice choice = choose(s, tokens, in);
  const std::vector<std::uint16_t> rows(product({s.tokens, s.hidden}), kNan);
  const std::vector<std::uint16_t> y(product({s.tokens, s.top_k, s.width}), timed ? 0 : kNan);
  const std::vector<float> squares(product({s.tokens, plan.squares_count()}), NAN);
  const std::string name[] = {"", "moe_logits", "moe_few_gate_up", "", "moe_few_down", "", "", "moe_few"};
  OpCase op{.op = name[parts] + name_of(c.storage),
            .shape = std::to_string(tokens) + "x" + std::to_string(s.hidden) + "x" + std::to_string(s.width) +
                     " " + std::to_string(s.top_k) + " of " + std::to_string(s.experts),
            .buffers = {raw(in.x), raw(in.parts), raw(in.router), in.gate_up.bytes(), in.down.bytes(),
                        raw(rows), raw(choice.logits), raw(y), raw(in.residual), raw(in.next_norm), raw(rows),
                        raw(squares), raw(std::vector<StepCounts>{{tokens, tokens, tokens, tokens}}),
                        raw(in.gate_up.scales()), raw(in.down.scales())},
            .scratch = {kLogits}};
  if (!timed) {
    const Want want = oracle(s, tokens, plan.squares_count(), in, choice);
    const Tolerance rounded{"FP32 sums, rounded as the oracle's to BF16", 2 * kBf16Rounding, 0x1p-13};
    const Tolerance joined{"BF16 roundings of y and h", 2 * kBf16Rounding, 0x1p-9};
    op.outputs = {
        {.buffer = kNormed, .want = want.normed, .tolerance = {"equal", 0, 0}},
        {.buffer = kY, .want = want.y, .tolerance = rounded},
        {.buffer = kResidual, .want = want.residual, .tolerance = joined},
        {.buffer = kScaled, .want = want.scaled, .tolerance = joined},
        {.buffer = kSquares,
         .type = DType::kF32,
         .want = want.squares,
         .tolerance = {"squares of rounded values", 2 * kBf16Rounding, 0x1p-7}},
    };
  }
  const bool blocks = in.gate_up.block_scales();
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const ops::cuda::MoeFewTensors tensors{
        .counts = p[kCounts],
        .x = p[kX],
        .norm = {.parts = reinterpret_cast<float*>(p[kParts].value), .count = kPartCount, .eps = kEps},
        .router = p[kRouter],
        .gate_up = {p[kGateUp], p[kGateUpScales], blocks},
        .down = {p[kDown], p[kDownScales], blocks},
        .normed = p[kNormed],
        .logits = p[kLogits],
        .y = p[kY],
        .residual = p[kResidual],
        .next_norm = p[kNextNorm],
        .scaled = p[kScaled],
        .squares = p[kSquares]};
    std::vector<KernelLaunch> launches;
    if ((parts & kLogitsPart) != 0) launches.push_back(moe_few_logits_launch(plan, tensors));
    if ((parts & kGateUpPart) != 0) launches.push_back(moe_few_gate_up_launch(plan, tensors));
    if ((parts & kDownPart) != 0) launches.push_back(moe_few_down_launch(plan, tensors));
    return launches;
  };
  op.bytes = bytes_of_parts(s, tokens, touched(choice), parts, in.down.bytes_each());
  return op;
}

}  // namespace

Result<std::vector<OpCase>> moe_few_cases(GpuBackend& gpu, bool timed) {
  std::vector<OpCase> cases;
  const auto add = [&](const Case& c) -> Result<> {
    MET_ASSIGN(OpCase made, layer_case(gpu, c, timed));
    cases.push_back(std::move(made));
    return {};
  };
  constexpr ExpertStorage kStorages[] = {ExpertStorage::kBf16, ExpertStorage::kE4m3Rows,
                                         ExpertStorage::kE4m3Blocks};
  const auto qwen = [](int experts, int tokens) {
    return MoeFewShape{.hidden = 2048,
                       .width = 768,
                       .experts = experts,
                       .top_k = 8,
                       .tokens = tokens <= 8    ? 8
                                 : tokens <= 16 ? 16
                                                : 32,
                       .renormalise = true};
  };
  if (timed) {
    // Qwen3-30B-A3B with so many of its experts that tokens touch as many as of 128, or nearly.
    for (const ExpertStorage storage : {ExpertStorage::kBf16, ExpertStorage::kE4m3Rows})
      for (const int tokens : {1, 8, 32})
        for (const unsigned part : {kAllParts, kLogitsPart, kGateUpPart, kDownPart})
          if (storage == ExpertStorage::kBf16 || (part != kLogitsPart && tokens <= 8))
            MET_TRY(add({qwen(tokens == 1 ? 32 : 64, tokens), tokens, part, storage}));
    return cases;
  }
  for (const ExpertStorage storage : kStorages) {
    const auto with = [&](const MoeFewShape& shape, int tokens) -> Result<> {
      const bool taken = storage == ExpertStorage::kBf16 || shape.tokens <= 8;
      return taken ? add({shape, tokens, kAllParts, storage}) : Result<>{};
    };
    for (const auto& [tokens, most] :
         {std::pair{0, 1}, {1, 8}, {5, 8}, {8, 8}, {9, 16}, {16, 16}, {17, 32}, {32, 32}}) {
      MET_TRY(with({64, 32, 8, 2, most, true}, tokens));
      MET_TRY(with({96, 160, 40, 3, most, false, Epilogue::kGeluMul}, tokens));
      MET_TRY(with({64, 32, 128, 8, most, true}, tokens));
    }
    MET_TRY(with(qwen(16, 1), 1));
    MET_TRY(with({2048, 768, 12, 2, 8, true}, 7));
    MET_TRY(with({2048, 768, 12, 2, 32, true}, 11));
    for (const int tokens : {3, 11}) MET_TRY(with({4096, 544, 6, 2, tokens < 8 ? 8 : 16, true}, tokens));
    MET_TRY(with({1024, 64, 40, 32, 8, false}, 6));
  }
  // Wider experts than a block of k a warp, and k that ends within the scales' block of a warp with two.
  for (const ExpertStorage storage : {ExpertStorage::kE4m3Rows, ExpertStorage::kE4m3Blocks}) {
    MET_TRY(add({{288, 1056, 6, 2, 8, true}, 5, kAllParts, storage}));
    MET_TRY(add({{2112, 96, 6, 2, 8, true}, 7, kAllParts, storage}));
  }
  return cases;
}

}  // namespace met::gpu::check
