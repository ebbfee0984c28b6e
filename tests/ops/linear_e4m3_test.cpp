// E4M3 weights with their scales: one a matrix, one a row, one a block of 128 x 128; ragged sizes; every code.
#include <gmock/gmock.h>

#include "met/ops.h"
#include "ops/linear/linear_pack.h"
#include "tests/ops/oracle/dequantise.h"
#include "tests/ops/oracle/linear.h"
#include "tests/ops/support/isa.h"
#include "tests/ops/support/pool.h"
#include "tests/ops/support/random.h"

namespace met::test {
namespace {

enum class Scales { kNone, kTensor, kRow, kBlock };

struct Matrix {
  std::int64_t n;
  std::vector<std::uint8_t> codes;  // [n, k]
  std::vector<float> scales;
  std::int64_t scale_rows = 1;
  std::int64_t scale_groups = 1;

  ops::E4m3Scales view() const { return {scales, scale_rows, scale_groups}; }
};

/// Finite codes alone.
std::uint8_t random_code(Random& random) {
  const auto code = static_cast<std::uint8_t>(random());
  return (code & 0x7FU) == 0x7FU ? std::uint8_t{0x80} : code;
}

Matrix random_matrix(Random& random, Scales kind, std::int64_t n, std::int64_t k) {
  Matrix m{n, {}, {}};
  for (std::int64_t i = 0; i < n * k; ++i) m.codes.push_back(random_code(random));
  if (kind == Scales::kNone) return m;
  m.scale_rows = kind == Scales::kTensor ? n : kind == Scales::kRow ? 1 : 128;
  m.scale_groups = kind == Scales::kBlock ? (k + 127) / 128 : 1;
  std::uniform_real_distribution<float> exponent(-9, 2);
  const std::int64_t count = (n + m.scale_rows - 1) / m.scale_rows * m.scale_groups;
  for (std::int64_t i = 0; i < count; ++i) m.scales.push_back(std::exp2(exponent(random)));
  return m;
}

double weight(const Matrix& m, std::int64_t r, std::int64_t i, std::int64_t k) {
  double scale = 1;
  if (!m.scales.empty()) {
    const std::int64_t group = m.scale_groups > 1 ? i / 128 : 0;
    scale = m.scales[static_cast<std::size_t>(r / m.scale_rows * m.scale_groups + group)];
  }
  return scale * oracle::e4m3_value(m.codes[static_cast<std::size_t>(r * k + i)]);
}

struct Product {
  std::vector<float> y;
  std::int64_t columns;
};

Product multiply(const std::vector<Matrix>& matrices, std::int64_t k, const std::vector<float>& x,
                 std::int32_t rows, bool gated, const Isa& isa, int threads) {
  std::int64_t n = 0;
  std::vector<ops::LinearPart> parts;
  for (const Matrix& m : matrices) {
    parts.push_back(
        {reinterpret_cast<const std::byte*>(m.codes.data()), static_cast<std::size_t>(k), m.n, m.view()});
    n += m.n;
  }
  const auto pack = *ops::plan_linear_pack(DType::kF8E4M3, n, k, ops::ActivationMode::kInt8, gated);
  Aligned packed(pack.packed_bytes);
  Aligned workspace(pack.workspace_row_bytes * static_cast<std::size_t>(rows));
  ops::pack_linear(pack, parts, packed.data(), 0, pack.tiles);
  const std::int64_t columns = gated ? n / 2 : n;
  Guarded y(static_cast<std::size_t>(rows * columns));
  LinearArgs args{};
  args.x = x.data();
  args.weights = packed.data();
  args.y = y.data();
  args.rows = &rows;
  args.workspace = workspace.data();
  args.k = k;
  args.n = n;
  args.ldx = k;
  args.ldy = columns;
  args.epilogue = gated ? Epilogue::kSiluMul : Epilogue::kStore;
  Pool pool(threads);
  pool.run(isa.find(pack.entry), &args);
  EXPECT_TRUE(y.intact());
  return {{y.values().begin(), y.values().end()}, columns};
}

/// Sum of row r of the stacked matrices with x, and the sum of magnitudes.
std::pair<double, double> sum(const std::vector<Matrix>& matrices, std::int64_t r, std::int64_t k,
                              const float* x) {
  std::size_t m = 0;
  while (r >= matrices[m].n) r -= matrices[m++].n;
  double total = 0;
  double magnitude = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    const double product = weight(matrices[m], r, i, k) * x[i];
    total += product;
    magnitude += std::abs(product);
  }
  return {total, magnitude};
}

TEST(LinearE4m3, EveryScaleMeetsItsWeights) {
  Random random(3);
  for (const Scales kind : {Scales::kNone, Scales::kTensor, Scales::kRow, Scales::kBlock}) {
    for (const std::int64_t k : {1, 64, 128, 192, 200, 300}) {
      const std::vector<std::int64_t> sizes = {200, 64, 5};  // a block of rows ends inside the first matrix
      std::vector<Matrix> matrices;
      for (const std::int64_t n : sizes) matrices.push_back(random_matrix(random, kind, n, k));
      const std::int32_t rows = 5;
      const std::vector<float> x = normal_floats(random, static_cast<std::size_t>(rows * k), 1.0F);
      for (const Isa& isa : isas()) {
        const Product got = multiply(matrices, k, x, rows, /*gated=*/false, isa, 2);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < got.columns; ++c) {
            const auto [want, magnitude] = sum(matrices, c, k, x.data() + r * k);
            ASSERT_NEAR(got.y[static_cast<std::size_t>(r * got.columns + c)], want, 2e-6 * magnitude)
                << isa.name << " k " << k << " row " << r << " column " << c << " scales "
                << static_cast<int>(kind);
          }
      }
    }
  }
}

TEST(LinearE4m3, GateAndUpKeepTheirOwnScales) {
  Random random(4);
  constexpr std::int64_t kWidth = 192;
  constexpr std::int64_t kK = 128;
  const std::vector<Matrix> matrices = {random_matrix(random, Scales::kBlock, kWidth, kK),
                                        random_matrix(random, Scales::kBlock, kWidth, kK)};
  const std::vector<float> x = normal_floats(random, kK, 0.01F);
  for (const Isa& isa : isas()) {
    const Product got = multiply(matrices, kK, x, 1, /*gated=*/true, isa, 1);
    for (std::int64_t c = 0; c < kWidth; ++c) {
      const auto [gate, gate_size] = sum(matrices, c, kK, x.data());
      const auto [up, up_size] = sum(matrices, kWidth + c, kK, x.data());
      ASSERT_NEAR(got.y[static_cast<std::size_t>(c)], oracle::silu(gate) * up,
                  1e-5 * (gate_size + 1) * (up_size + 1))
          << isa.name << " column " << c;
    }
  }
}

// All 256 codes, each alone in its row: subnormals and zeros of both signs are exact, NaN codes spoil their row alone.
TEST(LinearE4m3, EveryCodeIsItsValue) {
  constexpr std::int64_t kK = 160;
  Matrix m{256, std::vector<std::uint8_t>(256 * kK, 0), {}};
  for (int code = 0; code < 256; ++code)
    m.codes[static_cast<std::size_t>(code * kK + code % kK)] = static_cast<std::uint8_t>(code);
  const std::vector<float> x(kK, 1.0F);
  for (const Isa& isa : isas()) {
    const Product got = multiply({m}, kK, x, 1, /*gated=*/false, isa, 1);
    for (int code = 0; code < 256; ++code) {
      const double want = oracle::e4m3_value(static_cast<std::uint8_t>(code));
      const float value = got.y[static_cast<std::size_t>(code)];
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(value)) << isa.name << " code " << code;
      else
        EXPECT_EQ(value, want) << isa.name << " code " << code;
    }
  }
}

// A NaN code in the ragged last group, with a scale: its row is NaN, its neighbours are not.
TEST(LinearE4m3, ANanCodeStaysInItsRow) {
  Random random(5);
  constexpr std::int64_t kK = 200;
  Matrix m = random_matrix(random, Scales::kBlock, 40, kK);
  m.codes[17 * kK + 199] = 0xFF;
  const std::vector<float> x(kK, 0.0F);  // 0 * NaN is NaN
  for (const Isa& isa : isas()) {
    const Product got = multiply({m}, kK, x, 1, /*gated=*/false, isa, 1);
    for (std::size_t c = 0; c < 40; ++c)
      EXPECT_EQ(std::isnan(got.y[c]), c == 17) << isa.name << " column " << c;
  }
}

}  // namespace
}  // namespace met::test
