// The cache in BF16, E4M3 and int8: rope_kv writes it, attention reads it, an oracle of its own decodes it.
#include "met/ops.h"
#include "ops/attention/attention.h"
#include "tests/ops/oracle/attention.h"
#include "tests/ops/support/isa.h"
#include "tests/ops/support/pool.h"
#include "tests/ops/support/random.h"

namespace met::test {
namespace {

constexpr int kHeads = 6;
constexpr int kKvHeads = 2;
constexpr int kLength = 600;
constexpr int kBlocks = (kLength + 15) / 16;

struct Row {
  int position;
  int tokens;
};

/// One sequence in shuffled blocks; its cache is written by the kernel under test.
class Problem {
 public:
  Problem(DType type, int dim, const Isa& isa) : type_(type), dim_(dim), isa_(isa) {
    Random random(41);
    const auto size = static_cast<std::size_t>((kHeads + 2 * kKvHeads) * dim);
    qkv_ = normal_floats(random, size * kLength, 2.0F);
    for (std::size_t t = 0; t < kLength; ++t)  // tokens of very different size
      for (std::size_t i = 0; i < size; ++i) qkv_[t * size + i] *= t % 3 == 0 ? 0.01F : 1.0F;
    for (int b = 0; b < kBlocks; ++b) table_.push_back(1 + (b * 7) % kBlocks);
    const std::size_t bytes = ops::kv_bytes(type, kBlocks + 1, kKvHeads, dim);
    k_.assign(bytes, std::byte{0xFF});
    v_ = k_;
  }

  std::vector<float>& qkv() { return qkv_; }
  ops::KvScales scales;
  float softcap = 0;

  void write(int threads) {
    const StepRow row{0, kLength, 0, 0};
    const StepCounts counts{kLength, 1, 0, 0};
    std::vector<float> qkv = qkv_;
    RopeKvArgs args{};
    args.qkv = qkv.data();
    args.k_cache = k_.data();
    args.v_cache = v_.data();
    args.step_rows = &row;
    args.block_table = table_.data();
    args.counts = &counts;
    args.heads = kHeads;
    args.kv_heads = kKvHeads;
    args.head_dim = dim_;
    args.k_scale = scales.k;
    args.v_scale = scales.v;
    Pool pool(threads);
    pool.run(isa_.find("rope_kv_" + name()), &args);
  }

  std::vector<float> attend(int threads, const Row& part) {
    const auto size = static_cast<std::size_t>((kHeads + 2 * kKvHeads) * dim_);
    const StepRow row{0, part.tokens, part.position, 0};
    const StepCounts counts{part.tokens, 1, 0, 0};
    Guarded y(static_cast<std::size_t>(part.tokens * kHeads * dim_));
    Aligned workspace(ops::attention_workspace_bytes(1, threads, kHeads, kKvHeads, dim_, kLength));
    AttentionArgs args{};
    args.qkv = qkv_.data() + static_cast<std::size_t>(part.position) * size;
    args.k_cache = k_.data();
    args.v_cache = v_.data();
    args.y = y.data();
    args.step_rows = &row;
    args.block_table = table_.data();
    args.counts = &counts;
    args.workspace = workspace.data();
    args.heads = kHeads;
    args.kv_heads = kKvHeads;
    args.head_dim = dim_;
    args.scale = 1.0F / std::sqrt(static_cast<float>(dim_));
    args.softcap = softcap;
    args.k_scale = scales.k;
    args.v_scale = scales.v;
    Pool pool(threads);
    pool.run(isa_.find("attention_" + name()), &args);
    EXPECT_TRUE(y.intact()) << "wrote outside y";
    return {y.values().begin(), y.values().end()};
  }

  double key(int position, int head, int d) const { return read(k_, position, head, d * 16 + position % 16); }
  double value(int position, int head, int d) const {
    return read(v_, position, head, position % 16 * dim_ + d);
  }
  /// The f32 scale of a position; int8 only.
  float scale(bool of_values, int position, int head) const {
    float scale = 0;
    std::memcpy(&scale, head_at(of_values ? v_ : k_, position, head) + dim_ * 16 + position % 16 * 4, 4);
    return scale;
  }
  const float* source(int position, int head_of_all) const {
    return &qkv_[static_cast<std::size_t>((position * (kHeads + 2 * kKvHeads) + head_of_all) * dim_)];
  }

 private:
  std::string name() const {
    return type_ == DType::kBF16 ? "bf16" : type_ == DType::kF8E4M3 ? "e4m3" : "i8";
  }
  const std::byte* head_at(const std::vector<std::byte>& cache, int position, int head) const {
    const auto block = static_cast<std::size_t>(table_[static_cast<std::size_t>(position / 16)]);
    const std::size_t bytes = ops::kv_bytes(type_, 1, 1, dim_);
    return cache.data() + (block * kKvHeads + static_cast<std::size_t>(head)) * bytes;
  }
  double read(const std::vector<std::byte>& cache, int position, int head, int element) const {
    const std::byte* at = head_at(cache, position, head);
    if (type_ == DType::kF8E4M3) return f8e4m3_to_f32(static_cast<std::uint8_t>(at[element]));
    if (type_ == DType::kI8)
      return double{scale(&cache == &v_, position, head)} * static_cast<std::int8_t>(at[element]);
    std::uint16_t bits = 0;
    std::memcpy(&bits, at + 2 * element, 2);
    return bf16_to_f32(bits);
  }

  DType type_;
  int dim_;
  const Isa& isa_;
  std::vector<float> qkv_;
  std::vector<std::int32_t> table_;
  std::vector<std::byte> k_, v_;
};

class KvTypeTest : public testing::TestWithParam<DType> {};

TEST_P(KvTypeTest, StoresTheNearestNumber) {
  for (const Isa& isa : isas()) {
    Problem problem(GetParam(), 80, isa);
    problem.qkv()[kHeads * 80 + 3] = 1e6F;  // beyond E4M3
    problem.write(2);
    for (int p = 0; p < kLength; ++p) {
      for (int h = 0; h < 2 * kKvHeads; ++h) {
        const bool is_v = h >= kKvHeads;
        const float* x = problem.source(p, kHeads + h);
        float peak = 0;
        for (int d = 0; d < 80; ++d) peak = std::max(peak, std::abs(x[d]));
        for (int d = 0; d < 80; ++d) {
          const double got = is_v ? problem.value(p, h % kKvHeads, d) : problem.key(p, h % kKvHeads, d);
          if (GetParam() == DType::kBF16)
            ASSERT_EQ(got, bf16_to_f32(f32_to_bf16(x[d])));
          else if (GetParam() == DType::kF8E4M3)
            ASSERT_EQ(got, f8e4m3_to_f32(f32_to_f8e4m3(x[d]))) << x[d];
          else
            ASSERT_NEAR(got, x[d], peak / 127 * 0.50001) << isa.name << " position " << p;
        }
      }
    }
  }
}

TEST_P(KvTypeTest, AttentionMatchesOracle) {
  using Rows = std::vector<std::vector<double>>;
  for (const int dim : {64, 80}) {
    for (const Isa& isa : isas()) {
      Problem problem(GetParam(), dim, isa);
      problem.write(1);
      Rows keys[kKvHeads], values[kKvHeads];
      for (int h = 0; h < kKvHeads; ++h) {
        for (int p = 0; p < kLength; ++p) {
          keys[h].emplace_back();
          values[h].emplace_back();
          for (int d = 0; d < dim; ++d) keys[h].back().push_back(problem.key(p, h, d));
          for (int d = 0; d < dim; ++d) values[h].back().push_back(problem.value(p, h, d));
        }
      }
      for (const Row part : {Row{599, 1}, Row{0, 300}, Row{250, 9}}) {
        const std::vector<float> y = problem.attend(2, part);
        for (int t = 0; t < part.tokens; t += t % 16 == 15 ? 37 : 1) {
          for (int h = 0; h < kHeads; ++h) {
            const int kv_head = h / (kHeads / kKvHeads);
            const float* q = problem.source(part.position + t, h);
            const auto want = oracle::attention({q, q + dim}, keys[kv_head], values[kv_head],
                                                part.position + t, {1.0 / std::sqrt(dim), 0, 0, nullptr});
            for (int d = 0; d < dim; ++d)
              ASSERT_NEAR(y[static_cast<std::size_t>((t * kHeads + h) * dim + d)],
                          want[static_cast<std::size_t>(d)], 4e-5)
                  << isa.name << " position " << part.position + t << " head " << h;
          }
        }
      }
    }
  }
}

// Of E4M3 alone: numbers that a cache without scales would lose, below 2^-10 or beyond 448.
TEST(KvScales, NumbersOfAnySizeAreKeptAndMeantByTheirScale) {  // M8
  using Rows = std::vector<std::vector<double>>;
  constexpr int kDim = 80;
  for (const ops::KvScales scales : {ops::KvScales{0.003F, 0.00007F}, ops::KvScales{3.7F, 210.0F}}) {
    for (const float softcap : {0.0F, 3.0F}) {
      for (const Isa& isa : isas()) {
        Problem problem(DType::kF8E4M3, kDim, isa);
        problem.scales = scales;
        problem.softcap = softcap;
        Rows keys[kKvHeads], values[kKvHeads];
        for (int p = 0; p < kLength; ++p) {
          for (int h = kHeads; h < kHeads + 2 * kKvHeads; ++h) {
            const bool of_values = h >= kHeads + kKvHeads;
            const float scale = of_values ? scales.v : scales.k;
            Rows& rows = (of_values ? values : keys)[(h - kHeads) % kKvHeads];
            rows.emplace_back();
            float* x = problem.qkv().data() + (p * (kHeads + 2 * kKvHeads) + h) * kDim;
            for (int d = 0; d < kDim; ++d) {
              x[d] *= scale;
              const float number = x[d] * (1.0F / scale);
              rows.back().push_back(double{scale} * f8e4m3_to_f32(f32_to_f8e4m3(number)));
            }
          }
        }
        problem.write(2);
        for (int h = 0; h < kKvHeads; ++h) {
          for (int p = 0; p < kLength; ++p) {
            for (int d = 0; d < kDim; ++d) {
              const auto at = [&](const Rows& rows) {
                return rows[static_cast<std::size_t>(p)][static_cast<std::size_t>(d)];
              };
              ASSERT_DOUBLE_EQ(problem.key(p, h, d) * double{scales.k}, at(keys[h])) << isa.name;
              ASSERT_DOUBLE_EQ(problem.value(p, h, d) * double{scales.v}, at(values[h])) << isa.name;
            }
          }
        }
        for (const Row part : {Row{599, 1}, Row{250, 9}}) {
          const std::vector<float> y = problem.attend(2, part);
          for (int t = 0; t < part.tokens; ++t) {
            for (int h = 0; h < kHeads; ++h) {
              const int kv_head = h / (kHeads / kKvHeads);
              const float* q = problem.source(part.position + t, h);
              const auto want =
                  oracle::attention({q, q + kDim}, keys[kv_head], values[kv_head], part.position + t,
                                    {1.0 / std::sqrt(kDim), softcap, 0, nullptr});
              for (int d = 0; d < kDim; ++d)
                ASSERT_NEAR(y[static_cast<std::size_t>((t * kHeads + h) * kDim + d)] / scales.v,
                            want[static_cast<std::size_t>(d)] / double{scales.v}, 1e-4)
                    << isa.name << " position " << part.position + t << " head " << h;
            }
          }
        }
      }
    }
  }
}

TEST_P(KvTypeTest, DecodePrefillAndThreadsGiveTheSameBits) {  // D5
  for (const Isa& isa : isas()) {
    Problem problem(GetParam(), 64, isa);
    problem.write(1);
    const std::vector<float> whole = problem.attend(1, {0, kLength});
    Problem again(GetParam(), 64, isa);
    again.write(3);
    for (const Row part : {Row{0, kLength}, Row{599, 1}, Row{256, 1}, Row{15, 2}, Row{100, 263}}) {
      const std::vector<float> y = again.attend(3, part);
      EXPECT_TRUE(same_bits(
          y, std::span(whole).subspan(static_cast<std::size_t>(part.position * kHeads * 64), y.size())))
          << isa.name << " position " << part.position << " tokens " << part.tokens;
    }
  }
}

TEST_P(KvTypeTest, ANonFiniteTokenSpoilsWhatSeesItAlone) {
  for (const float poison : {std::nanf(""), -std::nanf("")}) {
    for (const Isa& isa : isas()) {
      Problem clean(GetParam(), 64, isa);
      clean.write(1);
      Problem problem(GetParam(), 64, isa);
      for (const int head : {kHeads, kHeads + kKvHeads})  // k and v of the first kv head
        problem.qkv()[static_cast<std::size_t>((300 * (kHeads + 2 * kKvHeads) + head) * 64 + 5)] = poison;
      problem.write(1);
      const std::vector<float> want = clean.attend(2, {290, 20});
      const std::vector<float> got = problem.attend(2, {290, 20});
      const std::size_t before = 10 * kHeads * 64;
      EXPECT_TRUE(same_bits(std::span(want).first(before), std::span(got).first(before))) << isa.name;
      for (std::size_t t = 10; t < 20; ++t) EXPECT_FALSE(std::isfinite(got[t * kHeads * 64 + 5])) << isa.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, KvTypeTest, testing::Values(DType::kBF16, DType::kF8E4M3, DType::kI8),
                         [](const auto& test) { return std::string(met::info(test.param).name); });

}  // namespace
}  // namespace met::test
