#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/formats/gguf_builder.h"
#include "tests/formats/safetensors_builder.h"

namespace met::formats {
namespace {

namespace fs = std::filesystem;
using met::testing::as_bytes;
using met::testing::Bytes;
using met::testing::safetensors;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kHeader =
    R"({"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
    R"("b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"I64","shape":[0,7],"data_offsets":[16,16]}})";

TEST(Safetensors, TableShapesAndBytes) {
  const std::string bytes = safetensors(kHeader, "0123ABCDEFGHIJKL");
  const auto file = SafetensorsFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 3U);
  const TensorEntry* w = file->find_tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->dtype, DType::kBF16);
  EXPECT_THAT(w->shape, ElementsAre(2, 3));
  const auto data = file->data(*w);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(data.data()), data.size()), "ABCDEFGHIJKL");
  EXPECT_TRUE(file->find_tensor("b")->shape.empty());
  EXPECT_EQ(file->find_tensor("e")->bytes, 0U);
  EXPECT_EQ(file->find_tensor("__metadata__"), nullptr);
  EXPECT_EQ(file->metadata()[0].second, "pt");
}

TEST(Safetensors, EveryDtype) {
  const std::tuple<const char*, int, std::optional<DType>> kTypes[] = {{"F64", 8, DType::kF64},
                                                                       {"F32", 4, DType::kF32},
                                                                       {"F16", 2, DType::kF16},
                                                                       {"BF16", 2, DType::kBF16},
                                                                       {"F8_E4M3", 1, DType::kF8E4M3},
                                                                       {"F8_E5M2", 1, DType::kF8E5M2},
                                                                       {"I64", 8, DType::kI64},
                                                                       {"I32", 4, DType::kI32},
                                                                       {"I16", 2, DType::kI16},
                                                                       {"I8", 1, DType::kI8},
                                                                       {"U8", 1, DType::kU8},
                                                                       {"BOOL", 1, DType::kBool},
                                                                       {"U16", 2, {}},
                                                                       {"U32", 4, {}},
                                                                       {"U64", 8, {}},
                                                                       {"F8_E8M0", 1, {}}};
  for (const auto& [name, size, dtype] : kTypes) {
    const std::string header = std::string(R"({"t":{"dtype":")") + name +
                               R"(","shape":[3],"data_offsets":[0,)" + std::to_string(3 * size) + "]}}";
    const std::string bytes = safetensors(header, std::string(static_cast<std::size_t>(3 * size), 'x'));
    const auto file = SafetensorsFile::parse(as_bytes(bytes));
    ASSERT_TRUE(file.has_value()) << name << ": " << file.error().message;
    EXPECT_EQ(file->tensors()[0].dtype, dtype) << name;
    EXPECT_EQ(file->tensors()[0].type_name, name);
  }
}

struct Hostile {
  std::string header;
  std::string data;
  ErrorCode code;
  const char* field;
  const char* message;
};

std::string one(std::string_view members) { return "{\"t\":{" + std::string(members) + "}}"; }

TEST(Safetensors, HostileHeadersEndInOneErrorThatNamesTheTensor) {
  constexpr auto kDamage = ErrorCode::kDataLoss;
  const Hostile kHostile[] = {
      {"", "", kDamage, "header", "no valid JSON"},
      {"[]", "", kDamage, "header", "no JSON object"},
      {"{\"a\":", "", kDamage, "header", "no valid JSON"},
      {"{}trailing", "", kDamage, "header", "no valid JSON"},
      {"{\"a\":\"\xFF\"}", "", kDamage, "header", "no valid JSON"},
      {std::string(100'000, '['), "", kDamage, "header", "no valid JSON"},
      {"{\"a\":" + std::string(50, '[') + std::string(50, ']') + "}", "", kDamage, "header", "no valid JSON"},
      {R"({"t":1})", "", kDamage, "t", "described by no object"},
      {R"({"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "x", kDamage, "header", "empty name"},
      {R"({"__metadata__":3})", "", kDamage, "__metadata__", "no object"},
      {R"({"__metadata__":{"a":1}})", "", kDamage, "__metadata__", "no string"},
      {one(R"("shape":[1],"data_offsets":[0,1])"), "x", kDamage, "t", "no dtype"},
      {one(R"("dtype":"F7","shape":[1],"data_offsets":[0,1])"), "x", ErrorCode::kUnsupported, "t",
       "unknown dtype \"F7\""},
      {one(R"("dtype":"U8","data_offsets":[0,1])"), "x", kDamage, "t", "no shape"},
      {one(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), "x", kDamage, "t", "dimension -1"},
      {one(R"("dtype":"U8","shape":[1.5],"data_offsets":[0,1])"), "x", kDamage, "t", "dimension 1.5"},
      {one(R"("dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1])"), "x", kDamage, "t",
       "dimension"},
      {one(R"("dtype":"U8","shape":[4398046511105,4398046511105],"data_offsets":[0,1])"), "x", kDamage, "t",
       "no file can hold"},
      {one(R"("dtype":"F64","shape":[4611686018427387905],"data_offsets":[0,8])"), "12345678", kDamage, "t",
       "more than any file"},
      {one(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"), "x", kDamage,
       "t", "more than 16 dimensions"},
      {one(R"("dtype":"U8","shape":[1])"), "x", kDamage, "t", "no data_offsets"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), "x", kDamage, "t", "no data_offsets"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[-1,0])"), "x", kDamage, "t", "no data_offsets"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[0,9223372036854775807])"), "x", kDamage, "t",
       "the file holds 1 bytes"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1e30])"), "x", kDamage, "t", "no data_offsets"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), "x", kDamage, "t", "[1, 0]"},
      {one(R"("dtype":"U8","shape":[2],"data_offsets":[0,1])"), "xy", kDamage, "t",
       "spans 1 bytes, but its shape and dtype need 2"},
      {R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
       "1234567", kDamage, "u", "\"t\" and \"u\" overlap"},
      {R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       "1234", kDamage, "u", "overlap"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       "12", kDamage, "header", "\"t\" stands in one object twice"},
  };
  for (const Hostile& h : kHostile) {
    const std::string bytes = safetensors(h.header, h.data);
    const auto file = SafetensorsFile::parse(as_bytes(bytes));
    ASSERT_FALSE(file.has_value()) << h.header.substr(0, 120);
    EXPECT_EQ(name(file.error().code), name(h.code)) << file.error().message;
    EXPECT_EQ(file.error().field, h.field) << file.error().message;
    EXPECT_THAT(file.error().message, HasSubstr(h.message)) << h.header.substr(0, 120);
  }
}

TEST(Safetensors, HeaderLengthIsBounded) {
  for (const std::uint64_t length : {1ULL << 60U, 1ULL << 63U, ~0ULL, ~0ULL - 7, 100'000'001ULL, 11ULL}) {
    const std::string bytes = Bytes().put<std::uint64_t>(length).raw("{}        ").str();
    const auto file = SafetensorsFile::parse(as_bytes(bytes));
    ASSERT_FALSE(file.has_value()) << length;
    EXPECT_THAT(file.error().message, HasSubstr("claims " + std::to_string(length) + " bytes"));
  }
}

TEST(Safetensors, TruncationAtEachByteIsAnError) {
  const std::string whole = safetensors(kHeader, "0123ABCDEFGHIJKL");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    const auto file = SafetensorsFile::parse(as_bytes(part));
    ASSERT_FALSE(file.has_value()) << size;
    EXPECT_EQ(file.error().code, ErrorCode::kDataLoss);
  }
}

class SafetensorsFolder : public ::testing::Test {
 protected:
  SafetensorsFolder() : root_(fs::path(::testing::TempDir()) / ("met_shards_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "model");
  }
  ~SafetensorsFolder() override { fs::remove_all(root_); }
  void put(const std::string& file, const std::string& text) {
    std::ofstream(root_ / "model" / file, std::ios::binary) << text;
  }
  static std::string tensor_file(const std::string& name) {
    return safetensors("{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x");
  }
  Result<SafetensorsDirectory> open() { return SafetensorsDirectory::open((root_ / "model").string()); }
  fs::path root_;
};

TEST_F(SafetensorsFolder, ShardsOfTheIndexAreOpenedOnce) {
  put("a.safetensors", tensor_file("x"));
  put("b.safetensors", tensor_file("y"));
  put("model.safetensors.index.json",
      R"({"metadata":{},"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  const auto directory = open();
  ASSERT_TRUE(directory.has_value()) << directory.error().message;
  EXPECT_THAT(directory->shard_names(), ElementsAre("a.safetensors", "b.safetensors"));
  EXPECT_NE(directory->shards()[1].find_tensor("y"), nullptr);
}

TEST_F(SafetensorsFolder, WithoutAnIndexThereIsOneFile) {
  EXPECT_EQ(open().error().code, ErrorCode::kNotFound);
  put("model.safetensors", tensor_file("x"));
  EXPECT_EQ(open()->shards().size(), 1U);
}

TEST_F(SafetensorsFolder, FaultyIndexesAreNamed) {
  std::ofstream(root_ / "secret.safetensors", std::ios::binary) << tensor_file("x");
  put("a.safetensors", tensor_file("x"));
  put("b.safetensors", tensor_file("x"));
  const std::pair<const char*, const char*> kFaulty[] = {
      {"", "no valid JSON"},
      {"[]", "no object weight_map"},
      {R"({"weight_map":3})", "no object weight_map"},
      {R"({"weight_map":{}})", "weight_map is empty"},
      {R"({"weight_map":{"x":7}})", "the file 7; it must be a plain file name"},
      {R"({"weight_map":{"x":"../secret.safetensors"}})",
       "\"../secret.safetensors\"; it must be a plain file name"},
      {R"({"weight_map":{"x":"/etc/passwd.safetensors"}})", "must be a plain file name"},
      {R"({"weight_map":{"x":"sub/a.safetensors"}})", "must be a plain file name"},
      {R"({"weight_map":{"x":"..\\secret.safetensors"}})", "must be a plain file name"},
      {R"({"weight_map":{"x":".hidden.safetensors"}})", "must be a plain file name"},
      {R"({"weight_map":{"x":"a.safetensors\u0000.safetensors"}})", "must be a plain file name"},
      {R"({"weight_map":{"x":"a.bin"}})", "must be a plain file name"},
      {R"({"weight_map":{"x":"absent.safetensors"}})", "absent.safetensors"},
      {R"({"weight_map":{"x":"a.safetensors","x":"b.safetensors"}})", "\"x\" stands in one object twice"},
      {R"({"weight_map":{"z":"a.safetensors"}})", "tensor \"z\" is not in a.safetensors"},
      {R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})", "tensor \"y\" is not in b.safetensors"},
  };
  for (const auto& [index, message] : kFaulty) {
    put("model.safetensors.index.json", index);
    const auto directory = open();
    ASSERT_FALSE(directory.has_value()) << index;
    EXPECT_THAT(directory.error().message, HasSubstr(message)) << index;
  }
  put("b.safetensors", safetensors(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                                       "y":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                   "xy"));
  put("model.safetensors.index.json", R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  EXPECT_THAT(open().error().message, HasSubstr("tensor \"x\" lies in both a.safetensors and b.safetensors"));
}

TEST(SafetensorsGolden, EveryCheckpointOpens) {
  const fs::path goldens = fs::path(MET_SOURCE_DIR) / "../shared/goldens";
  if (!fs::exists(goldens)) GTEST_SKIP() << "no shared goldens";
  int files = 0;
  for (const auto& entry : fs::directory_iterator(goldens)) {
    if (!fs::exists(entry.path() / "model.safetensors")) continue;
    const auto directory = SafetensorsDirectory::open(entry.path().string());
    ASSERT_TRUE(directory.has_value()) << directory.error().message;
    EXPECT_FALSE(directory->shards()[0].tensors().empty());
    ++files;
  }
  EXPECT_GT(files, 80);
}

}  // namespace
}  // namespace met::formats
