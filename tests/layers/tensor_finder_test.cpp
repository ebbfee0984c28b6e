// What is wrong with an FP8 checkpoint is told by the tensor's name before anything is loaded.
#include "layers/tensor_finder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "tests/formats/safetensors_builder.h"

namespace met::layers {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Granularity = config::Fp8Weights::Granularity;

struct Tensor {
  std::string name, dtype, shape;
  std::size_t bytes;
  std::optional<float> number = std::nullopt;  ///< its only one; else all bytes are 0
};

class Fp8FinderTest : public ::testing::Test {
 protected:
  Fp8FinderTest() : root_(fs::path(::testing::TempDir()) / ("met_finder_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~Fp8FinderTest() override { fs::remove_all(root_); }

  weights::Checkpoint checkpoint(const std::vector<Tensor>& tensors) {
    std::string header;
    std::string data;
    for (const Tensor& t : tensors) {
      header += (header.empty() ? "{" : ",") + ("\"" + t.name) + R"(":{"dtype":")" + t.dtype +
                R"(","shape":)" + t.shape + ",\"data_offsets\":[" + std::to_string(data.size()) + "," +
                std::to_string(data.size() + t.bytes) + "]}";
      data.append(t.bytes, '\0');
      if (t.number) std::memcpy(data.data() + data.size() - sizeof *t.number, &*t.number, sizeof *t.number);
    }
    std::ofstream(root_ / "model.safetensors", std::ios::binary)
        << met::testing::safetensors(header + "}", data);
    auto opened = weights::Checkpoint::open({hub::SourceKind::kSafetensors, root_.string(), "m"});
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return std::move(*opened);
  }

  /// What the check of one matrix m [200, 130] says; empty: nothing.
  std::string said(Granularity granularity, const std::vector<Tensor>& tensors,
                   std::vector<std::string> excluded = {}, bool declared = true) {
    const weights::Checkpoint file = checkpoint(tensors);
    TensorFinder finder(&file);
    config::ModelConfig config;
    if (declared)
      config.fp8 = {.granularity = granularity, .scales = "weight_scale", .excluded = std::move(excluded)};
    finder.declare(config);
    finder.require_matrix({.name = "a.m", .n = 200, .k = 130});
    if (const auto begun = finder.begin_loading(); !begun) return begun.error().message;
    EXPECT_THAT(finder.unused(), ::testing::IsEmpty());
    return "";
  }

  /// What the check of the scales of a layer's cache says.
  std::string cache_said(const std::vector<Tensor>& tensors) {
    const weights::Checkpoint file = checkpoint(tensors);
    TensorFinder finder(&file);
    finder.cache_scales("a.k_proj", "a.v_proj");
    const auto begun = finder.begin_loading();
    return begun ? "" : begun.error().message;
  }

  fs::path root_;
};

const Tensor kWeight{"a.m.weight", "F8_E4M3", "[200,130]", 26000};

TEST_F(Fp8FinderTest, ScalesOfEachGranularityAreFound) {
  EXPECT_EQ(said(Granularity::kTensor, {kWeight, {"a.m.weight_scale", "F32", "[]", 4}}), "");
  EXPECT_EQ(said(Granularity::kTensor, {kWeight, {"a.m.weight_scale", "BF16", "[1]", 2}}), "");
  EXPECT_EQ(said(Granularity::kRow, {kWeight, {"a.m.weight_scale", "F32", "[200,1]", 800}}), "");
  EXPECT_EQ(said(Granularity::kRow, {kWeight, {"a.m.weight_scale", "F32", "[200]", 800}}), "");
  EXPECT_EQ(said(Granularity::kBlock, {kWeight, {"a.m.weight_scale", "F32", "[2,2]", 16}}), "");
}

TEST_F(Fp8FinderTest, FloatsNeedNoScales) {
  EXPECT_EQ(said(Granularity::kBlock, {{"a.m.weight", "BF16", "[200,130]", 52000}}, {"m"}), "");
}

TEST_F(Fp8FinderTest, ScalesOfActivationsAndCachesAreNoLeftovers) {
  EXPECT_EQ(said(Granularity::kTensor, {kWeight,
                                        {"a.m.weight_scale", "F32", "[1]", 4},
                                        {"a.m.input_scale", "F32", "[1]", 4},
                                        {"a.k_scale", "F32", "[1]", 4},
                                        {"a.kv_scale", "F32", "[]", 4}}),
            "");
}

TEST_F(Fp8FinderTest, ScalesOfACacheAreFoundUnderEachName) {  // M8
  // Zeros are no scales: that the fault names the tensor tells that it was read.
  for (const std::string name : {"a.k_proj.k_scale", "a.k_proj.output_scale", "a.k_scale", "a.attn.k_scale"})
    EXPECT_THAT(cache_said({{name, "F32", "[]", 4}, {"a.v_scale", "F32", "[1]", 4}}),
                HasSubstr(name + " is no scale of a cache: 0.000000 is not positive and finite"));
  EXPECT_THAT(cache_said({{"a.kv_scale", "F32", "[]", 4}}),
              HasSubstr("2 tensors do not fit the configuration: a.kv_scale is no scale of a cache"));
  EXPECT_EQ(cache_said({{"b.k_scale", "F32", "[]", 4}, {"a.q_scale", "F32", "[]", 4}}), "");
}

TEST_F(Fp8FinderTest, AScaleOfACacheIsALeftoverWhereNoCacheReadsIt) {
  const weights::Checkpoint file = checkpoint({{"a.kv_scale", "F32", "[]", 4}});
  TensorFinder finder(&file);
  EXPECT_THAT(finder.unused(), ::testing::ElementsAre("a.kv_scale"));
  finder.cache_scales("a.k_proj", "a.v_proj");
  EXPECT_THAT(finder.unused(), ::testing::IsEmpty());
}

TEST_F(Fp8FinderTest, EveryFaultOfACachesScaleNamesItsTensor) {
  EXPECT_THAT(cache_said({{"a.k_scale", "F32", "[2]", 8}, {"a.v_scale", "I8", "[1]", 1}}),
              ::testing::AllOf(
                  HasSubstr("a.k_scale is no scale of a cache: it has type F32 and shape [2], supported is"),
                  HasSubstr("a.v_scale is no scale of a cache: it has type I8 and shape [1], supported is")));
  for (const float no_scale :
       {0.0F, -0.5F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e-45F})
    EXPECT_THAT(cache_said({{"a.kv_scale", "F32", "[1]", 4, no_scale}}),
                HasSubstr("a.kv_scale is no scale of a cache: " + std::to_string(no_scale) +
                          " is not positive and finite"));
  EXPECT_EQ(cache_said({{"a.kv_scale", "F32", "[1]", 4, 0.25F}}), "");
  EXPECT_THAT(cache_said({{"a.k_scale", "F32", "[]", 4}}),
              HasSubstr("a.k_proj has a scale of the cache, but a.v_proj has none"));
  EXPECT_THAT(cache_said({{"a.v_proj.v_scale", "F32", "[]", 4}}),
              HasSubstr("a.v_proj has a scale of the cache, but a.k_proj has none"));
}

TEST_F(Fp8FinderTest, EveryFaultNamesItsTensor) {
  EXPECT_THAT(said(Granularity::kTensor, {kWeight}), HasSubstr("a.m.weight_scale is missing"));
  EXPECT_THAT(said(Granularity::kBlock, {kWeight, {"a.m.weight_scale", "F32", "[2,1]", 8}}),
              HasSubstr("a.m.weight_scale has shape [2, 1], expected [2, 2]"));
  EXPECT_THAT(said(Granularity::kRow, {kWeight, {"a.m.weight_scale", "F32", "[1,200]", 800}}),
              HasSubstr("a.m.weight_scale has shape [1, 200], expected [200, 1]"));
  EXPECT_THAT(said(Granularity::kTensor, {kWeight, {"a.m.weight_scale", "I32", "[1]", 4}}),
              HasSubstr("a.m.weight_scale has type I32, expected F32, F16 or BF16"));
  const std::vector<Tensor> good = {kWeight, {"a.m.weight_scale", "F32", "[1]", 4}};
  EXPECT_THAT(said(Granularity::kTensor, good, {"lm_head", "a.m"}),
              HasSubstr("a.m.weight has type F8_E4M3, but quantization_config excludes this matrix"));
  EXPECT_THAT(
      said(Granularity::kTensor, {kWeight}, {}, /*declared=*/false),
      HasSubstr("a.m.weight has type F8_E4M3, which config.json's quantization_config does not declare"));
}

}  // namespace
}  // namespace met::layers
