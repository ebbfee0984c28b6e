#include "met/ops.h"
#include "tests/ops/oracle/linear.h"
#include "tests/ops/support/isa.h"
#include "tests/ops/support/pool.h"
#include "tests/ops/support/random.h"

namespace met::test {
namespace {

struct Case {
  int rows;
  int dim;
  float magnitude;
  float offset;
  bool add;
};

class RmsNormTest : public testing::TestWithParam<Case> {};

TEST_P(RmsNormTest, MatchesOracle) {
  const Case c = GetParam();
  Random random(5);
  const auto dim = static_cast<std::size_t>(c.dim);
  const std::size_t count = static_cast<std::size_t>(c.rows) * dim;
  const std::vector<float> x = normal_floats(random, count, c.magnitude);
  const std::vector<float> weight = normal_floats(random, dim, 1.0F);
  const std::vector<float> before = normal_floats(random, count, 1.0F);
  for (const Isa& isa : isas()) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      Pool pool(threads);
      Guarded y(count);
      if (c.add) std::copy(before.begin(), before.end(), y.data());
      const RmsNormArgs args{x.data(), weight.data(), y.data(), &c.rows, c.dim, 1e-6F, c.offset, c.add};
      pool.run(isa.find("rms_norm"), &args);
      EXPECT_TRUE(y.intact());
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t r = i / dim;
        const std::vector<double> want =
            i % dim == 0 ? oracle::rms_normalised(&x[r * dim], c.dim, weight.data(), 1e-6, c.offset)
                         : std::vector<double>{};
        if (want.empty()) continue;
        for (std::size_t d = 0; d < dim; ++d) {
          const double old = c.add ? before[i + d] : 0.0;
          ASSERT_NEAR(y.values()[i + d], old + want[d], 1e-6 * (std::abs(want[d]) + std::abs(old)) + 1e-9);
        }
      }
      if (first.empty()) first.assign(y.values().begin(), y.values().end());
      EXPECT_TRUE(same_bits(first, y.values()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RmsNormTest,
                         testing::Values(Case{0, 64, 1, 0, false}, Case{1, 576, 1, 0, false},
                                         Case{7, 64, 1e-3F, 1, false}, Case{300, 96, 1e4F, 0, true},
                                         Case{3, 33, 1, 1, true}, Case{2, 1, 1, 0, false}));

}  // namespace
}  // namespace met::test
