#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>

#include "tests/formats/gguf_builder.h"

namespace met::formats {
namespace {

using met::testing::as_bytes;
using met::testing::Bytes;
using met::testing::GgufBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

GgufBuilder small_file() {
  GgufBuilder b;
  b.string("general.architecture", "llama").u32("llama.block_count", 2).f32("llama.eps", 1e-5F);
  b.flag("tokenizer.add", true).strings("tokens", {"a", "", "ccc"}).i32s("types", {1, -3});
  b.tensor_f32("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  b.tensor("q", {32, 2}, 2, std::string(36, 'q'));
  return b;
}

TEST(Gguf, ReadsEveryKindOfValue) {
  GgufBuilder b = small_file();
  b.kv("u8", 0, Bytes().put<std::uint8_t>(200).str()).kv("i8", 1, Bytes().put<std::int8_t>(-5).str());
  b.kv("u16", 2, Bytes().put<std::uint16_t>(60000).str()).kv("i16", 3, Bytes().put<std::int16_t>(-6).str());
  b.kv("i32", 5, Bytes().put<std::int32_t>(-7).str())
      .kv("u64", 10, Bytes().put<std::uint64_t>(1ULL << 40U).str());
  b.kv("i64", 11, Bytes().put<std::int64_t>(-8).str()).kv("f64", 12, Bytes().put<double>(2.5).str());
  b.kv("huge", 10, Bytes().put<std::uint64_t>(1ULL << 63U).str());
  b.kv("bools", 9,
       Bytes().put<std::uint32_t>(7).put<std::uint64_t>(2).raw(std::string_view("\1\0", 2)).str());
  const std::string bytes = b.build();
  const auto file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(**file->string("general.architecture"), "llama");
  EXPECT_EQ(**file->integer("llama.block_count"), 2);
  EXPECT_EQ(**file->number("llama.eps"), 1e-5F);
  EXPECT_EQ(**file->boolean("tokenizer.add"), true);
  const std::pair<const char*, std::int64_t> kIntegers[] = {
      {"u8", 200}, {"i8", -5}, {"u16", 60000}, {"i16", -6}, {"i32", -7}, {"u64", 1LL << 40U}, {"i64", -8}};
  for (const auto& [key, value] : kIntegers) EXPECT_EQ(**file->integer(key), value) << key;
  EXPECT_EQ(**file->number("f64"), 2.5);
  EXPECT_EQ(**file->number("huge"), 0x1p63);
  EXPECT_EQ(file->integer("huge").error().field, "huge");
  EXPECT_EQ(file->find("bools")->integer(0), 1);
  EXPECT_EQ(file->find("bools")->integer(1), 0);
  EXPECT_EQ(file->find("types")->integer(1), -3);
  EXPECT_EQ(file->find("types")->number(1), -3.0);
  std::vector<std::string_view> tokens;
  const GgufStrings stored = **file->strings("tokens");
  for (const std::string_view s : stored) tokens.push_back(s);
  EXPECT_THAT(tokens, ElementsAre("a", "", "ccc"));
  EXPECT_EQ(file->metadata()[1].key, "llama.block_count");
  EXPECT_EQ(*file->integer("absent"), std::nullopt);
  EXPECT_THAT(file->string("u8").error().message, HasSubstr("\"u8\" is of type u8, but a string"));
  EXPECT_THAT(file->integer("types").error().message, HasSubstr("array of i32"));
}

TEST(Gguf, TensorsAreOutermostFirstAndPointIntoTheFile) {
  for (const std::uint32_t version : {2U, 3U}) {
    GgufBuilder b = small_file();
    b.version = version;
    const std::string bytes = b.build();
    const auto file = GgufFile::parse(as_bytes(bytes));
    ASSERT_TRUE(file.has_value()) << file.error().message;
    const TensorEntry* w = file->find_tensor("w");
    ASSERT_NE(w, nullptr);
    EXPECT_THAT(w->shape, ElementsAre(3, 2));
    EXPECT_EQ(w->dtype, DType::kF32);
    float values[6];
    std::memcpy(values, file->data(*w).data(), sizeof values);
    EXPECT_THAT(values, ElementsAre(1, 2, 3, 4, 5, 6));
    const TensorEntry* q = file->find_tensor("q");
    ASSERT_NE(q, nullptr);
    EXPECT_EQ(q->type_name, "Q4_0");
    EXPECT_EQ(q->bytes, 36U);
    EXPECT_EQ(static_cast<char>(file->data(*q)[0]), 'q');
    EXPECT_EQ(file->find_tensor("nope"), nullptr);
  }
}

TEST(Gguf, AlignmentOfTheFileIsUsed) {
  GgufBuilder b;
  b.alignment = 64;
  b.u32("general.alignment", 64).tensor_f32("a", {1}, {1}).tensor_f32("b", {1}, {2});
  const std::string bytes = b.build();
  const auto file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->find_tensor("b")->offset % 64, 0U);
  EXPECT_EQ(static_cast<int>(file->data(*file->find_tensor("b"))[3]), 0x40);
}

TEST(Gguf, TypeThatIsNotComputedWithStaysInTheTable) {
  const std::string bytes = GgufBuilder().tensor("x", {256}, 16, std::string(66, 'x')).build();
  const auto file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->tensors()[0].type_name, "IQ2_XXS");
  EXPECT_FALSE(file->tensors()[0].dtype.has_value());
}

struct Hostile {
  const char* what;
  std::function<std::string()> bytes;
  ErrorCode code;
  const char* message;  ///< a part of it
  const char* field = nullptr;
};

std::string array_of(std::uint32_t element, std::uint64_t count, std::string_view data = {}) {
  return Bytes().put(element).put(count).raw(data).str();
}
std::string dims(std::vector<std::uint64_t> d, std::uint32_t type = 0) {
  return GgufBuilder().tensor("t", d, type, std::string(64, 0)).build();
}
std::string with(std::string bytes, std::size_t at, std::string_view part) {
  return bytes.replace(at, part.size(), part);
}
std::string one_value(std::uint32_t type, std::string_view value) {
  return GgufBuilder().kv("k", type, value).build();
}
std::string aligned(std::uint32_t type, std::string_view value) {
  return GgufBuilder().kv("general.alignment", type, value).tensor_f32("t", {1}, {1}).build();
}
template <class T>
std::string raw(T v) {
  return Bytes().put(v).str();
}

const Hostile kHostile[] = {
    {"empty", [] { return std::string(); }, ErrorCode::kDataLoss, "magic"},
    {"another format", [] { return std::string("PK\3\4 and more bytes than a header has"); },
     ErrorCode::kDataLoss, "does not begin with \"GGUF\"", "magic"},
    {"swapped magic", [] { return with(small_file().build(), 0, "FUGG"); }, ErrorCode::kUnsupported,
     "big-endian"},
    {"big endian", [] { return with(small_file().build(), 4, std::string_view("\0\0\0\3", 4)); },
     ErrorCode::kUnsupported, "big-endian", "version"},
    {"version 1", [] { return with(small_file().build(), 4, raw(1U)); }, ErrorCode::kUnsupported,
     "version 1"},
    {"version 0", [] { return with(small_file().build(), 4, raw(0U)); }, ErrorCode::kUnsupported,
     "version 0"},
    {"version 4", [] { return with(small_file().build(), 4, raw(4U)); }, ErrorCode::kUnsupported,
     "version 4"},
    {"2^63 tensors", [] { return with(small_file().build(), 8, raw(1ULL << 63U)); }, ErrorCode::kDataLoss,
     "tensor count 9223372036854775808 does not fit", "tensor count"},
    {"2^32 tensors", [] { return with(small_file().build(), 8, raw(1ULL << 32U)); }, ErrorCode::kDataLoss,
     "tensor count"},
    {"2^64-1 metadata", [] { return with(small_file().build(), 16, raw(~0ULL)); }, ErrorCode::kDataLoss,
     "metadata count"},
    {"one tensor too many", [] { return with(small_file().build(), 8, raw(3ULL)); }, ErrorCode::kDataLoss,
     "tensor 2"},
    {"key of 2^63 bytes", [] { return with(small_file().build(), 24, raw(1ULL << 63U)); },
     ErrorCode::kDataLoss, "metadata key 0"},
    {"empty key", [] { return GgufBuilder().u32("", 1).build(); }, ErrorCode::kDataLoss,
     "metadata key 0 is empty"},
    {"string of 2^63 bytes", [] { return one_value(8, raw(1ULL << 63U)); }, ErrorCode::kDataLoss,
     "\"k\" claims"},
    {"string of 2^64-1 bytes", [] { return one_value(8, raw(~0ULL)); }, ErrorCode::kDataLoss, "\"k\" claims"},
    {"value type 13", [] { return one_value(13, raw(1ULL)); }, ErrorCode::kUnsupported,
     "unknown value type 13"},
    {"value type 2^32-1", [] { return one_value(~0U, raw(1ULL)); }, ErrorCode::kUnsupported,
     "unknown value type"},
    {"bool of 2", [] { return one_value(7, "\2"); }, ErrorCode::kDataLoss, "neither 0 nor 1"},
    {"bools of 255", [] { return one_value(9, array_of(7, 2, "\1\xFF")); }, ErrorCode::kDataLoss,
     "neither 0 nor 1"},
    {"element type 13", [] { return one_value(9, array_of(13, 1, "12345678")); }, ErrorCode::kUnsupported,
     "unknown value type 13"},
    {"array of arrays", [] { return one_value(9, array_of(9, 1, array_of(4, 1, "1234"))); },
     ErrorCode::kUnsupported, "array of arrays"},
    {"2^62 elements of 8 bytes", [] { return one_value(9, array_of(10, 1ULL << 62U, "12345678")); },
     ErrorCode::kDataLoss, "claims 4611686018427387904 elements"},
    {"2^61+1 elements of 8 bytes", [] { return one_value(9, array_of(12, (1ULL << 61U) + 1, "12345678")); },
     ErrorCode::kDataLoss, "elements"},
    {"2^60 strings", [] { return one_value(9, array_of(8, 1ULL << 60U, raw(0ULL))); }, ErrorCode::kDataLoss,
     "elements"},
    {"string element of 2^63 bytes", [] { return one_value(9, array_of(8, 1, raw(1ULL << 63U))); },
     ErrorCode::kDataLoss, "element 0 of metadata key \"k\""},
    {"second string element cut", [] { return one_value(9, array_of(8, 2, Bytes().text("aaaaaaaa").str())); },
     ErrorCode::kDataLoss, "inside metadata key \"k\""},
    {"duplicate key", [] { return GgufBuilder().u32("a", 1).u32("b", 1).u32("a", 1).build(); },
     ErrorCode::kDataLoss, "\"a\" stands in the file twice", "a"},
    {"alignment 0", [] { return aligned(4, raw(0U)); }, ErrorCode::kDataLoss, "general.alignment is 0"},
    {"alignment 24", [] { return aligned(4, raw(24U)); }, ErrorCode::kDataLoss, "power of two",
     "general.alignment"},
    {"alignment -32", [] { return aligned(5, raw(-32)); }, ErrorCode::kDataLoss, "general.alignment"},
    {"alignment 2^63", [] { return aligned(10, raw(1ULL << 63U)); }, ErrorCode::kDataLoss,
     "general.alignment"},
    {"alignment 2^31", [] { return aligned(4, raw(1U << 31U)); }, ErrorCode::kDataLoss, "general.alignment"},
    {"alignment as text", [] { return aligned(8, Bytes().text("32").str()); }, ErrorCode::kDataLoss,
     "general.alignment is string"},
    {"5 dimensions", [] { return dims({1, 1, 1, 1, 1}); }, ErrorCode::kDataLoss, "has 5 dimensions", "t"},
    {"dimension 0", [] { return dims({4, 0}); }, ErrorCode::kDataLoss, "dimension 1 of size 0", "t"},
    {"2^42+1 squared wraps", [] { return dims({(1ULL << 42U) + 1, (1ULL << 42U) + 1}); },
     ErrorCode::kDataLoss, "which no file can hold", "t"},
    {"2^42+1 by 2^22 wraps to 2^22", [] { return dims({(1ULL << 42U) + 1, 1ULL << 22U}); },
     ErrorCode::kDataLoss, "which no file can hold"},
    {"2^42+1", [] { return dims({(1ULL << 42U) + 1}); }, ErrorCode::kDataLoss, "but the file has", "t"},
    {"2^62 of 4 bytes", [] { return dims({1ULL << 62U}); }, ErrorCode::kDataLoss, "larger than any file"},
    {"2^63", [] { return dims({1ULL << 63U}); }, ErrorCode::kDataLoss, "no file can hold"},
    {"four times 2^16", [] { return dims({65536, 65536, 65536, 65536}); }, ErrorCode::kDataLoss,
     "no file can hold"},
    {"rows that are no whole blocks", [] { return dims({33, 32}, 2); }, ErrorCode::kDataLoss,
     "rows of 33 elements, no multiple of the 32"},
    {"withdrawn type 4", [] { return dims({32}, 4); }, ErrorCode::kUnsupported, "unknown ggml type 4", "t"},
    {"type 2^32-1", [] { return dims({32}, ~0U); }, ErrorCode::kUnsupported, "unknown ggml type 4294967295",
     "t"},
    {"empty tensor name", [] { return GgufBuilder().tensor_f32("", {1}, {1}).build(); }, ErrorCode::kDataLoss,
     "the name of tensor 0 is empty"},
    {"tensor name of 2 KB", [] { return GgufBuilder().tensor_f32(std::string(2000, 'n'), {1}, {1}).build(); },
     ErrorCode::kDataLoss, "2000 bytes long"},
    {"duplicate tensor",
     [] { return GgufBuilder().tensor_f32("t", {1}, {1}).tensor_f32("t", {1}, {1}).build(); },
     ErrorCode::kDataLoss, "\"t\" stands in the table twice", "t"},
    {"offset not aligned", [] { return GgufBuilder().tensor("t", {1}, 0, std::string(64, 0), 4).build(); },
     ErrorCode::kDataLoss, "no multiple of the alignment 32", "t"},
    {"offset outside", [] { return GgufBuilder().tensor("t", {1}, 0, "1234", 1 << 20).build(); },
     ErrorCode::kDataLoss, "but the file has", "t"},
    {"overlap",
     [] {
       return GgufBuilder()
           .tensor("t", {16}, 0, std::string(64, 0))
           .tensor("u", {8}, 0, std::string(32, 0), 32)
           .build();
     },
     ErrorCode::kDataLoss, "tensors \"t\" and \"u\" overlap", "u"},
    {"names are escaped",
     [] {
       return GgufBuilder()
           .tensor("t\n\x1B[31m", {8}, 0, std::string(32, 0))
           .tensor("u", {8}, 0, std::string(32, 0), 0)
           .build();
     },
     ErrorCode::kDataLoss, "\\n\\u001b[31m"},
};

TEST(Gguf, HostileFilesEndInOneErrorThatNamesThePlace) {
  for (const Hostile& h : kHostile) {
    const std::string bytes = h.bytes();
    const auto file = GgufFile::parse(as_bytes(bytes));
    ASSERT_FALSE(file.has_value()) << h.what;
    EXPECT_EQ(name(file.error().code), name(h.code)) << h.what << ": " << file.error().message;
    EXPECT_THAT(file.error().message, HasSubstr(h.message)) << h.what;
    if (h.field != nullptr) {
      EXPECT_EQ(file.error().field, h.field) << h.what;
    }
  }
}

TEST(Gguf, OffsetThatWrapsAroundIsRefused) {
  GgufBuilder b;
  b.tensor("t", {1}, 0, "1234", static_cast<std::int64_t>(INT64_MAX) / 32 * 32);
  std::string bytes = b.build();
  const std::string row_end = raw(static_cast<std::uint64_t>(INT64_MAX) / 32 * 32);
  bytes.replace(bytes.find(row_end), 8, raw(~0ULL - 31));
  const auto file = GgufFile::parse(as_bytes(bytes));
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message, HasSubstr("offset outside the file"));
}

TEST(Gguf, TruncationAtEachByteIsAnError) {
  const std::string whole = small_file().build();
  ASSERT_TRUE(GgufFile::parse(as_bytes(whole)).has_value());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string part =
        whole.substr(0, size);  // its own allocation, so that ASan sees a read past the end
    const auto file = GgufFile::parse(as_bytes(part));
    ASSERT_FALSE(file.has_value()) << size;
    EXPECT_EQ(file.error().code, ErrorCode::kDataLoss) << size << file.error().message;
    EXPECT_FALSE(file.error().message.empty());
  }
}

TEST(Gguf, OpenNamesThePathInItsErrors) {
  const auto absent = GgufFile::open("/nonexistent/model.gguf");
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(absent.error().message, HasSubstr("/nonexistent/model.gguf"));
  const auto directory = GgufFile::open(std::filesystem::temp_directory_path().string());
  ASSERT_FALSE(directory.has_value());
  EXPECT_THAT(directory.error().message, HasSubstr("no regular file"));
}

TEST(Gguf, ManyStringsAreCheckedOnceAndWalkedLazily) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 100'000; ++i) tokens.push_back("token" + std::to_string(i));
  const std::string bytes = GgufBuilder().strings("tokens", tokens).build();
  const auto start = std::chrono::steady_clock::now();
  const auto file = GgufFile::parse(as_bytes(bytes));
  const auto spent = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(file.has_value());
  std::size_t i = 0;
  const GgufStrings stored = **file->strings("tokens");
  for (const std::string_view s : stored) ASSERT_EQ(s, tokens[i++]);
  EXPECT_EQ(i, tokens.size());
  EXPECT_LT(std::chrono::duration<double>(spent).count(), 0.5);  // 1 ms unloaded; slack for sanitizers
}

}  // namespace
}  // namespace met::formats
