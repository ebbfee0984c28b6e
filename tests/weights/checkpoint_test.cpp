#include "weights/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/formats/gguf_builder.h"
#include "tests/formats/safetensors_builder.h"

namespace met::weights {
namespace {

namespace fs = std::filesystem;
using met::testing::as_bytes;
using met::testing::GgufBuilder;
using met::testing::safetensors;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : root_(fs::path(::testing::TempDir()) / ("met_checkpoint_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~CheckpointTest() override { fs::remove_all(root_); }
  Result<Checkpoint> gguf(const GgufBuilder& builder) {
    std::ofstream(root_ / "m.gguf", std::ios::binary) << builder.build();
    return Checkpoint::open({hub::SourceKind::kGguf, (root_ / "m.gguf").string(), "m"});
  }
  Result<Checkpoint> shards(const std::string& header, const std::string& data) {
    std::ofstream(root_ / "model.safetensors", std::ios::binary) << safetensors(header, data);
    return Checkpoint::open({hub::SourceKind::kSafetensors, root_.string(), "m"});
  }
  fs::path root_;
};

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(CheckpointTest, BothContainersGiveTheSameViews) {
  auto a = gguf(GgufBuilder().tensor("w", {4, 2}, 24, "abcdefgh").tensor("v", {2}, 24, "xy"));
  auto b = shards(
      R"({"w":{"dtype":"I8","shape":[2,4],"data_offsets":[0,8]},"v":{"dtype":"I8","shape":[2],"data_offsets":[8,10]}})",
      "abcdefghxy");
  for (auto* opened : {&a, &b}) {
    ASSERT_TRUE(opened->has_value()) << opened->error().message;
    const Checkpoint c = std::move(**opened);
    EXPECT_THAT(c.names(), ElementsAre("w", "v"));
    EXPECT_EQ(c.bytes(), 10U);
    const TensorView* w = c.find("w");
    ASSERT_NE(w, nullptr);
    EXPECT_EQ(w->dtype, DType::kI8);
    EXPECT_THAT(w->shape, ElementsAre(2, 4));
    EXPECT_EQ(text(w->bytes), "abcdefgh");
    EXPECT_EQ(c.find("x"), nullptr);
    EXPECT_EQ(c.gguf() != nullptr, opened == &a);
    c.prefetch();
    c.prefetch(*w);
    c.release(*w);
    EXPECT_EQ(text(w->bytes), "abcdefgh");
  }
}

TEST_F(CheckpointTest, ReleasedPagesAreReadAgain) {
  std::string data(1 << 20, 'a');
  for (std::size_t i = 0; i < data.size(); i += 4096) data[i] = static_cast<char>('b' + i / 4096 % 20);
  auto c = gguf(GgufBuilder().tensor("w", {1 << 20}, 24, data));
  ASSERT_TRUE(c.has_value()) << c.error().message;
  EXPECT_EQ(text(c->find("w")->bytes), data);
  c->release(*c->find("w"));
  EXPECT_EQ(text(c->find("w")->bytes), data);
}

TEST_F(CheckpointTest, ExpectSaysWhatIsThereInstead) {
  auto c = gguf(GgufBuilder().tensor_f32("w", {4, 2}, std::vector<float>(8)));
  ASSERT_TRUE(c.has_value());
  const std::vector<std::int64_t> shape = {2, 4};
  EXPECT_EQ(*c->expect("w", shape), c->find("w"));
  EXPECT_EQ(*c->expect("w", shape, std::vector{DType::kF16, DType::kF32}), c->find("w"));
  EXPECT_THAT(c->expect("u", shape).error().message, HasSubstr("tensor \"u\" is missing"));
  EXPECT_EQ(c->expect("w", std::vector<std::int64_t>{4, 2}).error().message,
            "tensor \"w\" has the shape [2, 4]; the configuration asks for [4, 2]");
  EXPECT_THAT(c->expect("w", shape, std::vector{DType::kF16, DType::kBF16}).error().message,
              HasSubstr("has the type F32; supported here: F16, BF16"));
}

TEST_F(CheckpointTest, CensusListsAllMissingAndUnusedNames) {
  auto c = gguf(GgufBuilder().tensor_f32("a", {1}, {1}).tensor_f32("b", {1}, {1}).tensor_f32("c", {1}, {1}));
  ASSERT_TRUE(c.has_value());
  const Census census = c->census(std::vector<std::string>{"b", "x", "y", "x"});
  EXPECT_THAT(census.missing, ElementsAre("x", "y"));
  EXPECT_THAT(census.unused, ElementsAre("a", "c"));
}

TEST_F(CheckpointTest, TextModelInsideAModelWithTowersIsFoundByItsOwnNames) {
  const auto row = [](const std::string& name, int at) {
    return "\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(at) + "," +
           std::to_string(at + 1) + "]}";
  };
  auto c = shards("{" + row("language_model.model.norm.weight", 0) + "," +
                      row("language_model.lm_head.weight", 1) + "," + row("vision_tower.x", 2) + "," +
                      row("model.language_model.layers.0.y", 3) + "}",
                  "abcd");
  ASSERT_TRUE(c.has_value()) << c.error().message;
  EXPECT_EQ(text(c->find("model.norm.weight")->bytes), "a");
  EXPECT_EQ(text(c->find("lm_head.weight")->bytes), "b");
  EXPECT_EQ(text(c->find("vision_tower.x")->bytes), "c");
  EXPECT_EQ(text(c->find("model.layers.0.y")->bytes), "d");
  auto twice =
      shards("{" + row("model.language_model.a", 0) + "," + row("language_model.model.a", 1) + "}", "ab");
  ASSERT_FALSE(twice.has_value());
  EXPECT_THAT(twice.error().message, HasSubstr("two tensors mean \"model.a\""));
}

TEST_F(CheckpointTest, TypesThatAreNotComputedWithAreRefusedByName) {
  auto c = gguf(GgufBuilder()
                    .tensor_f32("a", {1}, {1})
                    .tensor("b", {256}, 16, std::string(66, 0))
                    .tensor("c", {256}, 18, std::string(98, 0)));
  ASSERT_FALSE(c.has_value());
  EXPECT_EQ(c.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(c.error().field, "b");
  EXPECT_THAT(c.error().message, HasSubstr("\"b\" (and 1 more) has the type IQ2_XXS"));
}

TEST(CheckpointGolden, EveryGgufTypeOpensWithItsTensors) {
  const fs::path goldens = fs::path(MET_SOURCE_DIR) / "../shared/goldens";
  if (!fs::exists(goldens)) GTEST_SKIP() << "no shared goldens";
  for (const auto& entry : fs::directory_iterator(goldens)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("gguf-")) continue;
    const auto source = hub::inspect_path(entry.path().string());
    ASSERT_TRUE(source.has_value()) << source.error().message;
    const auto c = Checkpoint::open(*source);
    ASSERT_TRUE(c.has_value()) << c.error().message;
    const TensorView* down = c->find("blk.0.ffn_down.weight");
    ASSERT_NE(down, nullptr) << name;
    EXPECT_EQ(info(down->dtype).name, name.substr(name.rfind('-') + 1));
    EXPECT_EQ(down->bytes.size(),
              bytes_of(down->dtype, static_cast<std::size_t>(down->shape[0] * down->shape[1])));
  }
}

}  // namespace
}  // namespace met::weights
