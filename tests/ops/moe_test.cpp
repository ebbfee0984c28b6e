// Router, products by expert and their sum, against FP64.
#include <gmock/gmock.h>

#include <numeric>

#include "met/cpu_moe_ops.h"
#include "ops/linear/linear_pack.h"
#include "tests/ops/oracle/dequantise.h"
#include "tests/ops/oracle/linear.h"
#include "tests/ops/support/isa.h"
#include "tests/ops/support/pool.h"
#include "tests/ops/support/quantised.h"

namespace met::test {
namespace {

using Ints = std::vector<std::int32_t>;

struct Pairs {
  Ints begin, tokens, places;
  std::vector<float> weights;

  Pairs(std::size_t experts, std::size_t tokens_max, std::size_t top_k)
      : begin(experts + 1, -1),
        tokens(tokens_max * top_k, -1),
        places(tokens_max * top_k, -1),
        weights(tokens_max * top_k, -1) {}
  MoePairs view() { return {begin.data(), tokens.data(), places.data(), weights.data()}; }
};

Pairs route(std::vector<float> logits, std::int32_t tokens, std::int32_t experts, std::int32_t top_k,
            bool renormalise, const Isa& isa, int threads) {
  Pairs pairs(static_cast<std::size_t>(experts), static_cast<std::size_t>(tokens),
              static_cast<std::size_t>(top_k));
  const MoeRouteArgs args{logits.data(), pairs.view(), &tokens, experts, top_k, renormalise};
  Pool pool(threads);
  pool.run(isa.find("moe_route"), &args);
  return pairs;
}

std::int32_t expert_of(const Pairs& pairs, std::int32_t place) {
  return static_cast<std::int32_t>(std::ranges::upper_bound(pairs.begin, place) - pairs.begin.begin()) - 1;
}

/// Places are a permutation, ascending by token inside an expert, and lead back to their tokens.
void expect_grouped(const Pairs& pairs, std::int32_t top_k) {
  EXPECT_EQ(pairs.begin.front(), 0);
  EXPECT_EQ(pairs.begin.back(), std::ssize(pairs.places));
  Ints seen = pairs.places;
  std::ranges::sort(seen);
  for (std::int32_t i = 0; i < std::ssize(seen); ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
  for (std::size_t i = 0; i < pairs.places.size(); ++i)
    EXPECT_EQ(pairs.tokens[static_cast<std::size_t>(pairs.places[i])], static_cast<std::int32_t>(i) / top_k);
  for (std::size_t e = 0; e + 1 < pairs.begin.size(); ++e)
    for (std::int32_t p = pairs.begin[e] + 1; p < pairs.begin[e + 1]; ++p)
      EXPECT_LT(pairs.tokens[static_cast<std::size_t>(p) - 1], pairs.tokens[static_cast<std::size_t>(p)]);
}

TEST(MoeRoute, MatchesOracle) {
  Random random(21);
  struct Shape {
    std::int32_t tokens, experts, top_k;
  };
  for (const auto [tokens, experts, top_k] :
       {Shape{1, 1, 1}, {1, 8, 2}, {17, 16, 4}, {300, 128, 8}, {5, 33, 33}, {0, 8, 2}}) {
    const auto e = static_cast<std::size_t>(experts);
    const auto logits = normal_floats(random, static_cast<std::size_t>(tokens) * e, 3.0F);
    for (const bool renormalise : {false, true})
      for (const Isa& isa : isas()) {
        const Pairs pairs = route(logits, tokens, experts, top_k, renormalise, isa, 3);
        expect_grouped(pairs, top_k);
        for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
          const auto row = std::span(logits).subspan(t * e, e);
          std::vector<std::size_t> order(e);
          std::iota(order.begin(), order.end(), 0U);
          std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return row[i]; });
          double total = 0;
          for (const float v : row) total += std::exp(static_cast<double>(v));
          double chosen = 0;
          const auto k = static_cast<std::size_t>(top_k);
          for (std::size_t j = 0; j < k; ++j) chosen += std::exp(static_cast<double>(row[order[j]]));
          for (std::size_t j = 0; j < k; ++j) {
            ASSERT_EQ(expert_of(pairs, pairs.places[t * k + j]), static_cast<std::int32_t>(order[j]));
            const double want = std::exp(static_cast<double>(row[order[j]])) / (renormalise ? chosen : total);
            ASSERT_NEAR(pairs.weights[t * k + j], want, 2e-6 * want + 1e-12) << isa.name;
          }
        }
      }
  }
}

TEST(MoeRoute, OfEqualOnesTheLowerExpert) {
  const std::vector<float> logits = {1, 2, 2, 2, 0, 2};
  for (const Isa& isa : isas()) {
    const Pairs pairs = route(logits, 1, 6, 3, true, isa, 1);
    for (std::int32_t j = 0; j < 3; ++j) {
      EXPECT_EQ(expert_of(pairs, pairs.places[static_cast<std::size_t>(j)]), j + 1);
      EXPECT_FLOAT_EQ(pairs.weights[static_cast<std::size_t>(j)], 1.0F / 3);
    }
  }
}

TEST(MoeRoute, ATokenAloneHasItsBitsOfTheBatch) {  // D5
  Random random(22);
  const auto logits = normal_floats(random, 40 * 64, 2.0F);
  for (const Isa& isa : isas()) {
    const Pairs batch = route(logits, 40, 64, 6, true, isa, 3);
    for (std::size_t t = 0; t < 40; ++t) {
      const std::vector<float> row(logits.begin() + static_cast<std::ptrdiff_t>(t * 64),
                                   logits.begin() + static_cast<std::ptrdiff_t>((t + 1) * 64));
      const Pairs alone = route(row, 1, 64, 6, true, isa, 2);
      EXPECT_TRUE(same_bits(alone.weights, std::span(batch.weights).subspan(t * 6, 6)));
      for (std::size_t j = 0; j < 6; ++j)
        EXPECT_EQ(expert_of(alone, alone.places[j]), expert_of(batch, batch.places[t * 6 + j]));
    }
  }
}

TEST(MoeRoute, ANonFiniteRowStaysAloneAndInside) {
  Random random(23);
  const auto clean = normal_floats(random, 6 * 16, 2.0F);
  for (const float poison : {std::nanf(""), HUGE_VALF}) {
    auto logits = clean;
    logits[2 * 16 + 5] = poison;
    for (const Isa& isa : isas()) {
      const Pairs want = route(clean, 6, 16, 4, true, isa, 2);
      const Pairs got = route(logits, 6, 16, 4, true, isa, 2);
      expect_grouped(got, 4);
      for (std::size_t t = 0; t < 6; ++t) {
        const auto row = std::span(got.weights).subspan(t * 4, 4);
        if (t == 2)
          EXPECT_THAT(row, testing::Each(testing::Truly([](float v) { return std::isnan(v); })));
        else
          EXPECT_TRUE(same_bits(row, std::span(want.weights).subspan(t * 4, 4)));
      }
    }
  }
}

/// Experts of one type, packed one behind the other.
struct Experts {
  ops::LinearPack pack;
  std::int64_t stride = 0;
  std::vector<std::vector<std::vector<double>>> rows;  // [expert][row][k]
  std::unique_ptr<Aligned> packed;

  Experts(Random& random, DType type, int count, std::int64_t n, std::int64_t k, bool gated) {
    pack = *ops::plan_linear_pack(type, n, k, ops::ActivationMode::kF32, gated);
    stride = static_cast<std::int64_t>((pack.packed_bytes + 63) / 64 * 64);
    packed = std::make_unique<Aligned>(static_cast<std::size_t>(stride * count));
    const std::size_t row = bytes_of(type, static_cast<std::size_t>(k));
    for (int e = 0; e < count; ++e) {
      const std::vector<std::byte> source = random_rows(random, type, n, k);
      const std::int64_t half = n / 2;
      std::vector<ops::LinearPart> parts = {{source.data(), row, gated ? half : n, {}}};
      if (gated) parts.push_back({source.data() + static_cast<std::size_t>(half) * row, row, half, {}});
      ops::pack_linear(pack, parts, packed->data() + e * stride, 0, pack.tiles);
      auto& own = rows.emplace_back();
      for (std::int64_t r = 0; r < n; ++r)
        own.push_back(oracle::dequantise_row(type, source.data() + static_cast<std::size_t>(r) * row, k));
    }
  }
};

double dot(const std::vector<double>& w, const float* x, double* magnitude) {
  double total = 0;
  *magnitude = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    total += w[i] * x[i];
    *magnitude += std::abs(w[i] * x[i]);
  }
  return total;
}

// Experts with no pair, with one, and with more than a chunk of rows.
TEST(ExpertLinear, EachPlaceMeetsItsExpert) {
  Random random(24);
  constexpr std::int64_t kN = 40;
  constexpr std::int64_t kK = 64;
  const Ints begin = {0, 0, 1, 70, 70, 75};
  const std::int32_t pairs = begin.back();
  Ints tokens;
  for (std::int32_t p = 0; p < pairs; ++p) tokens.push_back(p * 7 % 11);
  const std::vector<float> x = normal_floats(random, 11 * kK, 1.0F);
  for (const DType type : {DType::kBF16, DType::kF8E4M3, DType::kQ4_0}) {
    for (const bool gated : {false, true}) {
      Experts experts(random, type, 5, kN, kK, gated);
      const std::int64_t columns = gated ? kN / 2 : kN;
      Aligned workspace(experts.pack.workspace_row_bytes * static_cast<std::size_t>(pairs));
      for (const Isa& isa : isas()) {
        for (const int threads : {1, 3}) {
          Guarded y(static_cast<std::size_t>(pairs * columns));
          ExpertLinearArgs args{};
          args.linear.x = x.data();
          args.linear.weights = experts.packed->data();
          args.linear.y = y.data();
          args.linear.gather = tokens.data();
          args.linear.rows = &begin.back();
          args.linear.workspace = workspace.data();
          args.linear.k = kK;
          args.linear.n = kN;
          args.linear.ldx = kK;
          args.linear.ldy = columns;
          args.linear.epilogue = gated ? Epilogue::kSiluMul : Epilogue::kStore;
          args.begin = begin.data();
          args.experts = 5;
          args.expert_bytes = experts.stride;
          Pool pool(threads);
          pool.run(isa.find(std::string(experts.pack.entry) + "_experts"), &args);
          EXPECT_TRUE(y.intact());
          for (std::int32_t p = 0; p < pairs; ++p) {
            const auto e = static_cast<std::size_t>(std::ranges::upper_bound(begin, p) - begin.begin()) - 1;
            const float* row = x.data() + tokens[static_cast<std::size_t>(p)] * kK;
            for (std::int64_t c = 0; c < columns; ++c) {
              double size = 0;
              double up_size = 0;
              double want = dot(experts.rows[e][static_cast<std::size_t>(c)], row, &size);
              if (gated)
                want = oracle::silu(want) *
                       dot(experts.rows[e][static_cast<std::size_t>(columns + c)], row, &up_size);
              ASSERT_NEAR(y.values()[static_cast<std::size_t>(p * columns + c)], want,
                          4e-6 * (size + 1) * (up_size + 1))
                  << type_name(type) << " " << isa.name << " place " << p << " column " << c;
            }
          }
        }
      }
    }
  }
}

TEST(ExpertSum, MatchesOracleAndAddsToTheResidual) {
  Random random(25);
  constexpr std::int32_t kTokens = 9;
  constexpr std::int32_t kTopK = 3;
  for (const std::int64_t dim : {1, 64, 77}) {
    const auto d = static_cast<std::size_t>(dim);
    Pairs pairs(4, kTokens, kTopK);
    std::iota(pairs.places.begin(), pairs.places.end(), 0);
    std::ranges::shuffle(pairs.places, random);
    pairs.weights = normal_floats(random, kTokens * kTopK, 1.0F);
    const auto y = normal_floats(random, kTokens * kTopK * d, 1.0F);
    const auto residual = normal_floats(random, kTokens * d, 1.0F);
    for (const Isa& isa : isas()) {
      Guarded hidden(kTokens * d);
      std::ranges::copy(residual, hidden.data());
      const std::int32_t tokens = kTokens;
      const ExpertSumArgs args{y.data(), pairs.view(), hidden.data(), &tokens, dim, kTopK};
      Pool pool(2);
      pool.run(isa.find("expert_sum"), &args);
      EXPECT_TRUE(hidden.intact());
      for (std::size_t t = 0; t < kTokens; ++t)
        for (std::size_t i = 0; i < d; ++i) {
          double want = residual[t * d + i];
          for (std::size_t j = 0; j < kTopK; ++j)
            want += static_cast<double>(pairs.weights[t * kTopK + j]) *
                    y[static_cast<std::size_t>(pairs.places[t * kTopK + j]) * d + i];
          ASSERT_NEAR(hidden.values()[t * d + i], want, 2e-6 * (std::abs(want) + 4)) << isa.name;
        }
    }
  }
}

}  // namespace
}  // namespace met::test
