// Which layers keep K and V in BF16, and what the pool takes then.
#include "ops/attention/kv_format.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/model_runner.h"

namespace met::engine {
namespace {

TEST(KvFormat, TheFirstAndTheLastLayersStayWide) {
  struct Case {
    std::string flag;
    int layers;
    std::string want;  ///< a letter a layer
  };
  for (const Case& c : std::vector<Case>{{"0", 6, "......"},
                                         {"1", 6, "w....w"},
                                         {"auto", 6, "ww..ww"},
                                         {"3", 6, "wwwwww"},
                                         {"9", 6, "wwwwww"},
                                         {"max", 5, "wwwww"},
                                         {"all", 5, "wwwww"},
                                         {"2", 5, "ww.ww"},
                                         {"1", 1, "w"}}) {
    const auto format = ops::kv_format(DType::kF8E4M3, c.flag, c.layers);
    ASSERT_TRUE(format) << c.flag;
    std::string got;
    for (int layer = 0; layer < c.layers; ++layer)
      got += format->of(layer, c.layers) == DType::kBF16 ? 'w' : '.';
    EXPECT_EQ(got, c.want) << c.flag;
  }
}

TEST(KvFormat, ABlockIsTheSumOfItsLayers) {
  config::ModelConfig model;
  model.layers = 10;
  model.kv_heads = 2;
  model.head_dim = 64;
  const std::size_t byte = std::size_t{2} * 16 * 2 * 64;  // K and V of one layer, a byte each
  const auto bytes = [&](DType type, const char* flag) {
    return kv_block_bytes(model, *ops::kv_format(type, flag, model.layers));
  };
  EXPECT_EQ(bytes(DType::kBF16, "0"), 20 * byte);
  EXPECT_EQ(bytes(DType::kF8E4M3, "0"), 10 * byte);
  EXPECT_EQ(bytes(DType::kF8E4M3, "auto"), 14 * byte);
  EXPECT_EQ(bytes(DType::kF8E4M3, "max"), 20 * byte);
  EXPECT_GT(bytes(DType::kI8, "1"), 12 * byte) << "int8 has scales";
}

TEST(KvFormat, CachesHaveOneNameIfTheyHoldTheSameBytes) {  // B3
  const auto name = [](DType type, const char* flag) { return ops::kv_format(type, flag, 6)->name(); };
  EXPECT_NE(name(DType::kF8E4M3, "1"), name(DType::kF8E4M3, "0"));
  EXPECT_NE(name(DType::kF8E4M3, "1"), name(DType::kF8E4M3, "2"));
  EXPECT_NE(name(DType::kF8E4M3, "1"), name(DType::kI8, "1"));
  for (const char* all : {"3", "4", "max", "all"})
    EXPECT_EQ(name(DType::kF8E4M3, all), name(DType::kBF16, "0")) << all;
  EXPECT_EQ(name(DType::kI8, "auto"), name(DType::kI8, "2"));
}

TEST(KvFormat, RefusesWhatIsNoCountAndWhatCannotTakeEffect) {
  for (const char* flag : {"", "x", "-1", "1x", "99999999999"}) {
    const auto format = ops::kv_format(DType::kF8E4M3, flag, 6);
    ASSERT_FALSE(format) << flag;
    EXPECT_EQ(format.error().field, "--kv-high-precision-layers");
  }
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF32}) {
    EXPECT_FALSE(ops::kv_format(type, "2", 6));
    EXPECT_TRUE(ops::kv_format(type, "0", 6));
  }
}

}  // namespace
}  // namespace met::engine
