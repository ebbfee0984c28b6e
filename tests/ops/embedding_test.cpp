#include "met/ops.h"
#include "ops/linear/linear_pack.h"
#include "tests/ops/oracle/dequantise.h"
#include "tests/ops/support/isa.h"
#include "tests/ops/support/pool.h"
#include "tests/ops/support/quantised.h"

namespace met::test {
namespace {

constexpr DType kTypes[] = {DType::kF32,  DType::kF16,    DType::kBF16,   DType::kQ4_0,
                            DType::kQ4_1, DType::kQ5_0,   DType::kQ5_1,   DType::kQ8_0,
                            DType::kQ2_K, DType::kQ3_K,   DType::kQ4_K,   DType::kQ5_K,
                            DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4};

class EmbeddingTest : public testing::TestWithParam<DType> {};

TEST_P(EmbeddingTest, RowsOfThePackedTable) {
  constexpr std::int64_t kVocabulary = 37;
  constexpr std::int64_t kDim = 512;
  Random random(3);
  const std::vector<std::byte> rows = random_rows(random, GetParam(), kVocabulary, kDim);
  const std::size_t row_bytes = bytes_of(GetParam(), kDim);
  const auto pack = ops::plan_linear_pack(GetParam(), kVocabulary, kDim, ops::ActivationMode::kInt8);
  ASSERT_TRUE(pack);
  Aligned table(pack->packed_bytes);
  const ops::LinearPart part{rows.data(), row_bytes, kVocabulary};
  ops::pack_linear(*pack, {&part, 1}, table.data(), 0, pack->tiles);

  const std::vector<std::int32_t> ids = {0, 36, 15, 16, -1, 37, 1 << 30, 7, 7};
  const auto tokens = static_cast<std::int32_t>(ids.size());
  for (const Isa& isa : isas()) {
    const MetCpuKernel kernel = isa.find(pack->embedding_entry);
    ASSERT_NE(kernel, nullptr) << pack->embedding_entry;
    for (const int threads : {1, 3}) {
      for (const float scale : {1.0F, 11.3125F}) {
        Pool pool(threads);
        Guarded y(ids.size() * kDim);
        const EmbeddingArgs args{ids.data(), table.data(), y.data(), &tokens, kDim, kVocabulary, scale};
        pool.run(kernel, &args);
        EXPECT_TRUE(y.intact());
        for (std::size_t t = 0; t < ids.size(); ++t) {
          const bool known = ids[t] >= 0 && ids[t] < kVocabulary;
          const std::vector<double> want =
              known ? oracle::dequantise_row(GetParam(),
                                             rows.data() + static_cast<std::size_t>(ids[t]) * row_bytes, kDim)
                    : std::vector<double>(kDim, 0.0);
          for (std::size_t i = 0; i < kDim; ++i)
            ASSERT_NEAR(y.values()[t * kDim + i], want[i] * scale, 1e-6 * std::abs(want[i] * scale) + 1e-6)
                << isa.name << " token " << t << " value " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EmbeddingTest, testing::ValuesIn(kTypes),
                         [](const auto& test) { return type_name(test.param); });

}  // namespace
}  // namespace met::test
