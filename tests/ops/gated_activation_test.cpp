#include "met/ops.h"
#include "tests/ops/oracle/linear.h"
#include "tests/ops/support/isa.h"
#include "tests/ops/support/pool.h"
#include "tests/ops/support/random.h"

namespace met::test {
namespace {

TEST(GatedActivation, MatchesOracle) {
  Random random(11);
  for (const Epilogue activation : {Epilogue::kSiluMul, Epilogue::kGeluMul}) {
    for (const int rows : {0, 1, 7, 300}) {
      for (const std::int64_t width : {1, 15, 64, 193}) {
        const auto w = static_cast<std::size_t>(width);
        const std::vector<float> x = normal_floats(random, static_cast<std::size_t>(rows) * 2 * w, 8.0F);
        for (const Isa& isa : isas()) {
          Pool pool(2);
          Guarded y(static_cast<std::size_t>(rows) * w);
          const GatedActivationArgs args{x.data(), y.data(), &rows, width, activation};
          pool.run(isa.find("gated_activation"), &args);
          EXPECT_TRUE(y.intact());
          for (std::size_t i = 0; i < y.values().size(); ++i) {
            const double gate = x[i / w * 2 * w + i % w];
            const double up = x[i / w * 2 * w + w + i % w];
            const double active =
                activation == Epilogue::kSiluMul ? oracle::silu(gate) : oracle::gelu_tanh(gate);
            ASSERT_NEAR(y.values()[i], active * up, 2e-6 * std::abs(active * up) + 1e-6 * std::abs(up))
                << isa.name << " gate " << gate;
          }
        }
      }
    }
  }
}

TEST(GatedActivation, ExtremeGates) {
  const std::vector<float> gates = {-1e4F, -100, -88, -87, 0, 87, 100, 1e4F, std::nanf("")};
  for (const Isa& isa : isas()) {
    for (const Epilogue activation : {Epilogue::kSiluMul, Epilogue::kGeluMul}) {
      std::vector<float> x = gates;
      x.resize(2 * gates.size(), 2.0F);
      Pool pool(1);
      Guarded y(gates.size());
      const std::int32_t rows = 1;
      const GatedActivationArgs args{x.data(), y.data(), &rows, static_cast<std::int64_t>(gates.size()),
                                     activation};
      pool.run(isa.find("gated_activation"), &args);
      for (std::size_t i = 0; i + 1 < gates.size(); ++i)
        EXPECT_NEAR(y.values()[i], gates[i] > 0 ? 2 * gates[i] : 0, 1e-5 * std::abs(gates[i])) << gates[i];
      EXPECT_TRUE(std::isnan(y.values().back()));
    }
  }
}

}  // namespace
}  // namespace met::test
