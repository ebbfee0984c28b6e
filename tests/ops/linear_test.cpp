#include <gmock/gmock.h>

#include "met/ops.h"
#include "ops/linear/linear_pack.h"
#include "tests/ops/oracle/dequantise.h"
#include "tests/ops/oracle/linear.h"
#include "tests/ops/support/isa.h"
#include "tests/ops/support/pool.h"
#include "tests/ops/support/quantised.h"

namespace met::test {
namespace {

using ops::ActivationMode;

enum class Inputs {
  kExact,   ///< integers times a power of two, peak 127 in each block: rounding to int8 loses nothing
  kNormal,  ///< any values
};

struct Case {
  std::vector<std::int64_t> parts;  ///< n of each stacked matrix
  std::int64_t k;
  int rows;
  Epilogue epilogue = Epilogue::kStore;
  bool norm = false;
  bool bias = false;
  bool gather = false;
  Inputs inputs = Inputs::kExact;
};

/// One linear with its data: packed weights, inputs, the launch.
class Problem {
 public:
  Problem(DType type, ActivationMode mode, const Case& c) : case_(c), type_(type), random_(7) {
    gated_ = c.epilogue == Epilogue::kSiluMul || c.epilogue == Epilogue::kGeluMul;
    for (const std::int64_t n : c.parts) n_ += n;
    auto plan = ops::plan_linear_pack(type, n_, c.k, mode, gated_);
    if (!plan) ADD_FAILURE() << plan.error().message;
    pack_ = *plan;
    std::vector<ops::LinearPart> parts;
    for (const std::int64_t n : c.parts) {
      sources_.push_back(random_rows(random_, type, n, c.k));
      const std::size_t row = bytes_of(type, static_cast<std::size_t>(c.k));
      parts.push_back({sources_.back().data(), row, n});
      for (std::int64_t r = 0; r < n; ++r)
        weights_.push_back(
            oracle::dequantise_row(type, sources_.back().data() + static_cast<std::size_t>(r) * row, c.k));
    }
    packed_ = std::make_unique<Aligned>(pack_.packed_bytes);
    ops::pack_linear(pack_, parts, packed_->data(), 0, pack_.tiles / 2);
    ops::pack_linear(pack_, parts, packed_->data(), pack_.tiles / 2, pack_.tiles);
    workspace_ = std::make_unique<Aligned>(pack_.workspace_row_bytes * static_cast<std::size_t>(c.rows + 1));
    fill_inputs();
  }

  const ops::LinearPack& pack() const { return pack_; }
  std::int64_t columns() const { return gated_ ? n_ / 2 : n_; }
  std::int64_t ldy() const { return columns() + 3; }
  std::vector<float>& x() { return x_; }
  std::int64_t ldx() const { return ldx_; }

  /// Runs rows [begin, begin + rows) as their own launch; y is [rows, ldy].
  std::vector<float> run(const Isa& isa, Pool& pool, std::int32_t begin, std::int32_t rows) {
    const std::vector<float> x_before = x_;
    Guarded y(static_cast<std::size_t>(rows * ldy()));
    LinearArgs args{};
    args.x = x_.data() + (case_.gather ? 0 : begin * ldx_);
    args.weights = packed_->data();
    args.bias = case_.bias ? bias_.data() : nullptr;
    args.norm_weight = case_.norm ? norm_.data() : nullptr;
    args.residual = residual_.data() + begin * ldy();
    args.y = y.data();
    args.gather = case_.gather ? gather_.data() + begin : nullptr;
    args.rows = &rows;
    args.workspace = workspace_->data();
    args.k = case_.k;
    args.n = n_;
    args.ldx = ldx_;
    args.ldy = ldy();
    args.norm_eps = 1e-5F;
    args.norm_offset = 0.25F;
    args.epilogue = case_.epilogue;
    const MetCpuKernel kernel = isa.find(pack_.entry);
    if (kernel == nullptr) {
      ADD_FAILURE() << "no kernel " << pack_.entry;
      return {};
    }
    pool.run(kernel, &args);
    EXPECT_TRUE(y.intact()) << "wrote outside y";
    EXPECT_TRUE(same_bits(x_before, x_)) << "changed x";
    return {y.values().begin(), y.values().end()};
  }

  /// The FP64 result of row r, column c, and what it may differ by.
  double want(std::int64_t r, std::int64_t c, double* tolerance) {
    const std::int64_t source = case_.gather ? gather_[static_cast<std::size_t>(r)] : r;
    if (source != prepared_row_) {
      prepared_ = oracle::rms_normalised(x_.data() + source * ldx_, case_.k,
                                         case_.norm ? norm_.data() : nullptr, 1e-5, 0.25);
      prepared_row_ = source;
    }
    const std::vector<double>& p = prepared_;
    double value = sum(p, c, tolerance);
    if (gated_) {
      double up_tolerance = 0;
      const double up = sum(p, columns() + c, &up_tolerance);
      const double gate =
          case_.epilogue == Epilogue::kSiluMul ? oracle::silu(value) : oracle::gelu_tanh(value);
      *tolerance = 1.2 * (*tolerance * std::abs(up) + up_tolerance * std::abs(gate)) +
                   up_tolerance * *tolerance + 1e-6;
      return gate * up;
    }
    if (case_.epilogue == Epilogue::kResidual) value += residual_[static_cast<std::size_t>(r * ldy() + c)];
    *tolerance += 1e-6 * std::abs(value);
    return value;
  }

 private:
  void fill_inputs() {
    ldx_ = case_.k + 5;
    const auto rows = static_cast<std::size_t>(case_.rows);
    x_ = normal_floats(random_, rows * static_cast<std::size_t>(ldx_), 1.0F);
    if (case_.inputs == Inputs::kExact) {
      std::uniform_int_distribution<int> integer(-127, 127);
      for (std::size_t i = 0; i < x_.size(); ++i) {
        const auto column = static_cast<std::int64_t>(i) % ldx_;
        const float unit = column / 32 % 2 == 0 ? 0x1p-6F : 0x1p-3F;
        x_[i] = unit * static_cast<float>(column % 32 == 5 ? (i % 2 == 0 ? -127 : 127) : integer(random_));
      }
    }
    norm_ = normal_floats(random_, static_cast<std::size_t>(case_.k), 1.0F);
    bias_ = normal_floats(random_, static_cast<std::size_t>(n_), 1.0F);
    residual_ = normal_floats(random_, rows * static_cast<std::size_t>(ldy()), 1.0F);
    for (std::size_t r = 0; r < rows; ++r) gather_.push_back(static_cast<std::int32_t>((r * 7 + 3) % rows));
  }

  double sum(const std::vector<double>& p, std::int64_t column, double* tolerance) const {
    const std::vector<double>& w = weights_[static_cast<std::size_t>(column)];
    double total = case_.bias ? bias_[static_cast<std::size_t>(column)] : 0.0;
    double magnitude = std::abs(total);
    double variance = 0;  // of the activations' rounding, d^2 / 12 each
    for (std::size_t b = 0; b < w.size(); b += 32) {
      double peak = 0;
      double squares = 0;
      for (std::size_t i = b; i < std::min(b + 32, w.size()); ++i) {
        total += w[i] * p[i];
        magnitude += std::abs(w[i] * p[i]);
        squares += w[i] * w[i];
        peak = std::max(peak, std::abs(p[i]));
      }
      variance += squares * (peak / 127) * (peak / 127) / 12;
    }
    const bool rounds = pack_.mode == ActivationMode::kInt8 && info(type_).block_elements > 1;
    const bool exact = case_.inputs == Inputs::kExact && !case_.norm;
    *tolerance = 2e-6 * magnitude + (rounds && !exact ? 6 * std::sqrt(variance) : 0.0);
    return total;
  }

  Case case_;
  DType type_;
  Random random_;
  bool gated_ = false;
  std::int64_t n_ = 0;
  std::int64_t ldx_ = 0;
  ops::LinearPack pack_;
  std::vector<std::vector<std::byte>> sources_;
  std::vector<std::vector<double>> weights_;
  std::unique_ptr<Aligned> packed_;
  std::unique_ptr<Aligned> workspace_;
  std::vector<float> x_, norm_, bias_, residual_;
  std::vector<std::int32_t> gather_;
  std::int64_t prepared_row_ = -1;  // of the oracle
  std::vector<double> prepared_;
};

constexpr DType kTypes[] = {DType::kF32,    DType::kF16,  DType::kBF16, DType::kF8E4M3, DType::kQ4_0,
                            DType::kQ4_1,   DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,   DType::kQ2_K,
                            DType::kQ3_K,   DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,   DType::kIQ4_NL,
                            DType::kIQ4_XS, DType::kMXFP4};

std::vector<Case> cases() {
  return {
      {{16}, 256, 1},
      {{48}, 512, 7},
      {{33}, 256, 3, Epilogue::kStore, false, true},
      {{5}, 256, 2, Epilogue::kResidual},
      {{16, 10, 22}, 256, 5, Epilogue::kStore, true, true, true, Inputs::kNormal},
      {{64}, 768, 300, Epilogue::kResidual, true, false, false, Inputs::kNormal},
      {{40, 40}, 256, 6, Epilogue::kSiluMul, true, true, false, Inputs::kNormal},
      {{40, 40}, 768, 67, Epilogue::kSiluMul, true, true, false, Inputs::kNormal},
      {{16, 16}, 512, 1, Epilogue::kGeluMul},
  };
}

class LinearTest : public testing::TestWithParam<DType> {};

void expect_oracle(Problem& problem, const Case& c, const Isa& isa, Pool& pool) {
  const std::vector<float> y = problem.run(isa, pool, 0, c.rows);
  double worst = 0;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    if (c.rows > 50 && r % 13 != 0) continue;
    for (std::int64_t n = 0; n < problem.columns(); ++n) {
      double tolerance = 0;
      const double want = problem.want(r, n, &tolerance);
      const double got = y[static_cast<std::size_t>(r * problem.ldy() + n)];
      const double share = std::abs(got - want) / tolerance;
      worst = std::isnan(share) ? HUGE_VAL : std::max(worst, share);
    }
    for (std::int64_t n = problem.columns(); n < problem.ldy(); ++n)
      EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(r * problem.ldy() + n)])) << "wrote past the columns";
  }
  EXPECT_LE(worst, 1.0) << isa.name << " rows " << c.rows << " k " << c.k << " threads " << pool.threads();
}

TEST_P(LinearTest, MatchesOracle) {
  for (const ActivationMode mode : {ActivationMode::kInt8, ActivationMode::kF32}) {
    for (const Case& c : cases()) {
      Problem problem(GetParam(), mode, c);
      for (const Isa& isa : isas()) {
        for (const int threads : {1, 3}) {
          Pool pool(threads);
          expect_oracle(problem, c, isa, pool);
        }
      }
    }
  }
}

void expect_bits_alone_as_in_batch(DType type, ActivationMode mode, const Case& c) {
  Problem problem(type, mode, c);
  for (const Isa& isa : isas()) {
    Pool one(1), two(2), three(3);
    const std::vector<float> batch = problem.run(isa, one, 0, c.rows);
    EXPECT_TRUE(same_bits(batch, problem.run(isa, two, 0, c.rows))) << isa.name << ": 2 threads differ";
    EXPECT_TRUE(same_bits(batch, problem.run(isa, three, 0, c.rows))) << isa.name << ": 3 threads differ";
    const auto ldy = static_cast<std::size_t>(problem.ldy());
    for (const auto& [begin, rows] : {std::pair{0, 1}, {5, 1}, {6, 2}, {64, 7}, {70, 1}, {1, 70}}) {
      const std::vector<float> part = problem.run(isa, two, begin, rows);
      EXPECT_TRUE(
          same_bits(part, std::span(batch).subspan(static_cast<std::size_t>(begin) * ldy, part.size())))
          << isa.name << ": rows " << begin << " + " << rows;
    }
  }
}

TEST_P(LinearTest, RowAloneHasTheBitsOfTheRowInTheBatch) {  // D5
  for (const ActivationMode mode : {ActivationMode::kInt8, ActivationMode::kF32}) {
    expect_bits_alone_as_in_batch(GetParam(), mode,
                                  {{600}, 512, 71, Epilogue::kStore, true, false, false, Inputs::kNormal});
    expect_bits_alone_as_in_batch(
        GetParam(), mode, {{40, 40}, 256, 71, Epilogue::kSiluMul, true, false, false, Inputs::kNormal});
  }
}

TEST_P(LinearTest, ANonFiniteRowStaysAlone) {
  const Case c{{20}, 256, 6, Epilogue::kStore, true, false, false, Inputs::kNormal};
  for (const float poison : {std::nanf(""), HUGE_VALF}) {
    Problem clean(GetParam(), ActivationMode::kInt8, c);
    Problem problem(GetParam(), ActivationMode::kInt8, c);
    problem.x()[static_cast<std::size_t>(2 * problem.ldx() + 40)] = poison;
    for (const Isa& isa : isas()) {
      Pool pool(2);
      const std::vector<float> want = clean.run(isa, pool, 0, c.rows);
      const std::vector<float> got = problem.run(isa, pool, 0, c.rows);
      const auto ldy = static_cast<std::size_t>(problem.ldy());
      for (std::size_t r = 0; r < 6; ++r) {
        const auto row = std::span(got).subspan(r * ldy, 20);
        if (r == 2)
          EXPECT_THAT(row, testing::Each(testing::Truly([](float v) { return !std::isfinite(v); })));
        else
          EXPECT_TRUE(same_bits(row, std::span(want).subspan(r * ldy, 20)));
      }
    }
  }
}

TEST_P(LinearTest, NoRowsWriteNothing) {
  const Case c{{20}, 256, 2};
  Problem problem(GetParam(), ActivationMode::kInt8, c);
  Pool pool(2);
  for (const Isa& isa : isas()) EXPECT_TRUE(problem.run(isa, pool, 0, 0).empty());
}

INSTANTIATE_TEST_SUITE_P(Types, LinearTest, testing::ValuesIn(kTypes),
                         [](const auto& test) { return type_name(test.param); });

TEST(LinearFloat, AnyKAndN) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    for (const std::int64_t k : {1, 3, 31, 33, 100, 129}) {
      const Case c{{17}, k, 5, Epilogue::kStore, true, false, false, Inputs::kNormal};
      Problem problem(type, ActivationMode::kInt8, c);
      for (const Isa& isa : isas()) {
        Pool pool(2);
        expect_oracle(problem, c, isa, pool);
      }
    }
  }
}

TEST(PlanLinearPack, RefusesWhatCannotBe) {
  EXPECT_EQ(ops::plan_linear_pack(DType::kI32, 16, 32, ActivationMode::kInt8).error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(ops::plan_linear_pack(DType::kQ4_0, 16, 48, ActivationMode::kInt8).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(ops::plan_linear_pack(DType::kQ4_0, 0, 32, ActivationMode::kInt8).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(ops::plan_linear_pack(DType::kQ4_0, 33, 32, ActivationMode::kInt8, true).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(PlanLinearPack, PacksNoMoreBytesThanTheFile) {
  for (const DType type :
       {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kIQ4_NL, DType::kMXFP4})
    EXPECT_EQ(ops::plan_linear_pack(type, 64, 576, ActivationMode::kInt8)->packed_bytes,
              bytes_of(type, 64 * 576));
}

}  // namespace
}  // namespace met::test
