// What lies on the device behind a load, byte for byte, for every way in which an FP8 checkpoint stores its matrices.
#include "layers/cuda/matrix_loader.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "gpu/mock/mock_backend.h"
#include "tests/formats/safetensors_builder.h"

namespace met::layers::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Granularity = config::Fp8Weights::Granularity;
using Codes = std::vector<std::uint8_t>;

/// Bytes of tensors, and their safetensors file.
class File {
 public:
  File() : root_(fs::path(::testing::TempDir()) / ("met_loader_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~File() { fs::remove_all(root_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void add(const std::string& name, const std::string& dtype, const std::string& shape, const void* bytes,
           std::size_t count) {
    header_ += (header_.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":")" + dtype + R"(","shape":)" +
               shape + ",\"data_offsets\":[" + std::to_string(data_.size()) + "," +
               std::to_string(data_.size() + count) + "]}";
    data_.append(static_cast<const char*>(bytes), count);
  }
  /// E4M3 codes that differ by matrix, row and column; none is NaN.
  Codes add_e4m3(const std::string& name, std::int64_t n, std::int64_t k) {
    Codes codes;
    for (std::int64_t i = 0; i < n * k; ++i) {
      const auto code = static_cast<std::uint8_t>((i * 7 + i / k * 13 + std::ssize(name) * 31) % 256);
      codes.push_back((code & 0x7f) == 0x7f ? std::uint8_t{0} : code);
    }
    add(name, "F8_E4M3", shape(n, k), codes.data(), codes.size());
    return codes;
  }
  std::vector<std::uint16_t> add_bf16(const std::string& name, std::int64_t n, std::int64_t k) {
    std::vector<std::uint16_t> values;
    for (std::int64_t i = 0; i < n * k; ++i) values.push_back(f32_to_bf16(static_cast<float>(i % 251) / 64));
    add(name, "BF16", shape(n, k), values.data(), 2 * values.size());
    return values;
  }
  void add_scales(const std::string& name, std::int64_t n, std::int64_t k, const std::vector<float>& values) {
    add(name, "F32", shape(n, k), values.data(), 4 * values.size());
  }
  weights::Checkpoint open() {
    std::ofstream(root_ / "model.safetensors", std::ios::binary)
        << met::testing::safetensors(header_ + "}", data_);
    auto opened = weights::Checkpoint::open({hub::SourceKind::kSafetensors, root_.string(), "m"});
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return std::move(*opened);
  }

 private:
  static std::string shape(std::int64_t n, std::int64_t k) {
    return "[" + std::to_string(n) + "," + std::to_string(k) + "]";
  }
  fs::path root_;
  std::string header_, data_;
};

template <class T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
/// 8 rows of one, 8 of the other.
template <class T>
std::vector<T> in_turn(const std::vector<T>& gate, const std::vector<T>& up, std::int64_t k) {
  std::vector<T> out;
  for (std::int64_t at = 0; at < std::ssize(gate); at += 8 * k)
    for (const std::vector<T>* matrix : {&gate, &up})
      out.insert(out.end(), matrix->begin() + at, matrix->begin() + at + 8 * k);
  return out;
}

class MatrixLoaderTest : public ::testing::Test {
 protected:
  void declare(Granularity granularity) {
    config_.fp8 = {.granularity = granularity, .scales = "scale", .excluded = {}};
  }

  /// One matrix, checked and loaded.
  DeviceMatrix load(const std::function<Result<DeviceMatrix>(MatrixLoader&)>& ask) {
    checkpoint_.emplace(file_.open());
    MatrixLoader loader(device_, &*checkpoint_, {});
    loader.finder().declare(config_);
    const auto checked = ask(loader);
    EXPECT_TRUE(checked) << checked.error().message;
    const auto begun = loader.finder().begin_loading();
    EXPECT_TRUE(begun) << begun.error().message;
    auto loaded = ask(loader);
    if (!loaded) {
      error_ = loaded.error().message;
      return {};
    }
    EXPECT_TRUE(loader.finish());
    EXPECT_EQ(checked->type, loaded->type);
    EXPECT_EQ(checked->block_scales, loaded->block_scales);
    EXPECT_EQ(loader.device_bytes(), loaded->data.bytes() + loaded->scales.bytes()) << "as planned";
    return std::move(*loaded);
  }

  template <class T>
  std::vector<T> on_device(const gpu::DeviceMemory& memory) {
    std::vector<T> values(memory.bytes() / sizeof(T));
    EXPECT_TRUE(device_.copy_to_host(values.data(), memory.data(), memory.bytes()));
    return values;
  }

  gpu::mock::MockBackend device_;
  File file_;
  config::ModelConfig config_;
  std::optional<weights::Checkpoint> checkpoint_;
  std::string error_;
};

TEST_F(MatrixLoaderTest, AScaleAMatrixBecomesAScaleARow) {
  declare(Granularity::kTensor);
  const Codes q = file_.add_e4m3("q.weight", 3, 80);
  const Codes k = file_.add_e4m3("kk.weight", 2, 80);
  file_.add_scales("q.scale", 1, 1, {0.5F});
  file_.add_scales("kk.scale", 1, 1, {0.25F});
  const DeviceMatrix m = load([](MatrixLoader& l) { return l.matrix({{"q", 3, 80}, {"kk", 2, 80}}); });
  EXPECT_EQ(m.type, DType::kF8E4M3);
  EXPECT_FALSE(m.block_scales);
  EXPECT_EQ(on_device<std::uint8_t>(m.data), joined(q, k));
  EXPECT_THAT(on_device<float>(m.scales), ElementsAre(0.5F, 0.5F, 0.5F, 0.25F, 0.25F));
}

TEST_F(MatrixLoaderTest, RowsOfGateAndUpTakeTurnsWithTheirScales) {
  declare(Granularity::kRow);
  const Codes gate = file_.add_e4m3("gate.weight", 16, 128);
  const Codes up = file_.add_e4m3("up.weight", 16, 128);
  std::vector<float> of_gate, of_up, want;
  for (int row = 0; row < 16; ++row) {
    of_gate.push_back(static_cast<float>(1 + row));
    of_up.push_back(static_cast<float>(101 + row));
  }
  file_.add_scales("gate.scale", 16, 1, of_gate);
  file_.add_scales("up.scale", 16, 1, of_up);
  const DeviceMatrix m = load([](MatrixLoader& l) { return l.gated({"gate", 16, 128}, {"up", 16, 128}); });
  EXPECT_EQ(on_device<std::uint8_t>(m.data), in_turn(gate, up, 128));
  EXPECT_EQ(on_device<float>(m.scales), in_turn(of_gate, of_up, 1));
}

TEST_F(MatrixLoaderTest, AMatrixMayTakeSeveralPieces) {
  declare(Granularity::kTensor);
  constexpr std::int64_t kRows = 4104, kWidth = 1024;
  static_assert(2 * kRows * kWidth > std::int64_t{Uploader::kPieceBytes});
  const Codes a = file_.add_e4m3("a.weight", kRows, kWidth);
  const Codes b = file_.add_e4m3("bb.weight", kRows, kWidth);
  file_.add_scales("a.scale", 1, 1, {1});
  file_.add_scales("bb.scale", 1, 1, {1});
  const MatrixName first{"a", kRows, kWidth}, second{"bb", kRows, kWidth};
  const DeviceMatrix stacked = load([&](MatrixLoader& l) { return l.matrix({first, second}); });
  EXPECT_TRUE(on_device<std::uint8_t>(stacked.data) == joined(a, b));
  const DeviceMatrix gated = load([&](MatrixLoader& l) { return l.gated(first, second); });
  EXPECT_TRUE(on_device<std::uint8_t>(gated.data) == in_turn(a, b, kWidth));
}

TEST_F(MatrixLoaderTest, BlocksOfStackedMatricesFollowEachOther) {
  declare(Granularity::kBlock);
  const Codes q = file_.add_e4m3("q.weight", 256, 192);
  const Codes k = file_.add_e4m3("kk.weight", 40, 192);
  file_.add_scales("q.scale", 2, 2, {1, 2, 3, 4});
  file_.add_scales("kk.scale", 1, 2, {5, 6});
  const DeviceMatrix m = load([](MatrixLoader& l) { return l.matrix({{"q", 256, 192}, {"kk", 40, 192}}); });
  EXPECT_EQ(m.type, DType::kF8E4M3);
  EXPECT_TRUE(m.block_scales);
  EXPECT_EQ(on_device<std::uint8_t>(m.data), joined(q, k));
  EXPECT_THAT(on_device<float>(m.scales), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(MatrixLoaderTest, BlocksOfGateAndUpTakeTurns) {
  declare(Granularity::kBlock);
  const Codes gate = file_.add_e4m3("gate.weight", 136, 192);
  const Codes up = file_.add_e4m3("up.weight", 136, 192);
  file_.add_scales("gate.scale", 2, 2, {1, 2, 3, 4});
  file_.add_scales("up.scale", 2, 2, {5, 6, 7, 8});
  const DeviceMatrix m = load([](MatrixLoader& l) { return l.gated({"gate", 136, 192}, {"up", 136, 192}); });
  EXPECT_TRUE(m.block_scales);
  EXPECT_EQ(on_device<std::uint8_t>(m.data), in_turn(gate, up, 192));
  EXPECT_THAT(on_device<float>(m.scales), ElementsAre(1, 2, 5, 6, 3, 4, 7, 8));
}

TEST_F(MatrixLoaderTest, OneBlockAlongKIsAScaleARow) {
  declare(Granularity::kBlock);
  file_.add_e4m3("q.weight", 130, 128);
  file_.add_e4m3("kk.weight", 2, 128);
  file_.add_scales("q.scale", 2, 1, {1, 2});
  file_.add_scales("kk.scale", 1, 1, {3});
  const DeviceMatrix m = load([](MatrixLoader& l) { return l.matrix({{"q", 130, 128}, {"kk", 2, 128}}); });
  EXPECT_FALSE(m.block_scales);
  std::vector<float> want(128, 1.0F);
  want.insert(want.end(), {2, 2, 3, 3});
  EXPECT_EQ(on_device<float>(m.scales), want);
}

/// Codes times scales, rounded to BF16 once.
std::vector<std::uint16_t> widened(const Codes& codes, std::int64_t k, const std::vector<float>& scales,
                                   std::int64_t scale_rows, std::int64_t groups) {
  std::vector<std::uint16_t> out;
  for (std::int64_t i = 0; i < std::ssize(codes); ++i) {
    const std::int64_t scale = i / k / scale_rows * groups + (groups == 1 ? 0 : i % k / 128);
    out.push_back(f32_to_bf16(f8e4m3_to_f32(codes[static_cast<std::size_t>(i)]) *
                              scales[static_cast<std::size_t>(scale)]));
  }
  return out;
}

TEST_F(MatrixLoaderTest, BlocksThatBeginInsideAnotherMatrixsAreWidened) {
  declare(Granularity::kBlock);
  const Codes q = file_.add_e4m3("q.weight", 130, 192);
  const Codes k = file_.add_e4m3("kk.weight", 2, 192);
  file_.add_scales("q.scale", 2, 2, {1.5F, 2, 3, 4});
  file_.add_scales("kk.scale", 1, 2, {5, 6});
  const DeviceMatrix m = load([](MatrixLoader& l) { return l.matrix({{"q", 130, 192}, {"kk", 2, 192}}); });
  EXPECT_EQ(m.type, DType::kBF16);
  EXPECT_FALSE(m.scales);
  EXPECT_EQ(on_device<std::uint16_t>(m.data),
            joined(widened(q, 192, {1.5F, 2, 3, 4}, 128, 2), widened(k, 192, {5, 6}, 128, 2)));
}

TEST_F(MatrixLoaderTest, FloatsOfAnFp8CheckpointStayFloats) {
  declare(Granularity::kTensor);
  const Codes q = file_.add_e4m3("q.weight", 2, 64);
  const auto k = file_.add_bf16("kk.weight", 3, 64);
  file_.add_scales("q.scale", 1, 1, {0.5F});
  const DeviceMatrix mixed = load([](MatrixLoader& l) { return l.matrix({{"q", 2, 64}, {"kk", 3, 64}}); });
  EXPECT_EQ(mixed.type, DType::kBF16) << "one of the two is E4M3";
  EXPECT_EQ(on_device<std::uint16_t>(mixed.data), joined(widened(q, 64, {0.5F}, 2, 1), k));
  const DeviceMatrix plain = load([](MatrixLoader& l) { return l.matrix({{"kk", 3, 64}}); });
  EXPECT_EQ(on_device<std::uint16_t>(plain.data), k);
}

TEST_F(MatrixLoaderTest, TablesHeadsAndOddRowsAreWidened) {
  declare(Granularity::kRow);
  const Codes q = file_.add_e4m3("q.weight", 2, 64);
  const Codes odd = file_.add_e4m3("odd.weight", 1, 72);
  file_.add_scales("q.scale", 2, 1, {0.5F, 3});
  file_.add_scales("odd.scale", 1, 1, {0.25F});
  const auto want = widened(q, 64, {0.5F, 3}, 1, 1);
  const DeviceMatrix head = load([](MatrixLoader& l) { return l.matrix({{"q", 2, 64}}, /*keep=*/true); });
  EXPECT_EQ(on_device<std::uint16_t>(head.data), want);
  const DeviceMatrix table = load([](MatrixLoader& l) { return l.table({"q", 2, 64}); });
  EXPECT_EQ(on_device<std::uint16_t>(table.data), want);
  const Codes wide = file_.add_e4m3("wide.weight", 1, 24'640);
  file_.add_scales("wide.scale", 1, 1, {2});
  const DeviceMatrix row = load([](MatrixLoader& l) { return l.matrix({{"wide", 1, 24'640}}); });
  EXPECT_EQ(on_device<std::uint16_t>(row.data), widened(wide, 24'640, {2}, 1, 1));
  const DeviceMatrix rows = load([](MatrixLoader& l) { return l.matrix({{"odd", 1, 72}}); });
  EXPECT_EQ(on_device<std::uint16_t>(rows.data), widened(odd, 72, {0.25F}, 1, 1));
}

TEST_F(MatrixLoaderTest, ScalesThatAreNotFiniteAreRefusedByName) {
  declare(Granularity::kTensor);
  file_.add_e4m3("q.weight", 2, 64);
  file_.add_scales("q.scale", 1, 1, {std::numeric_limits<float>::infinity()});
  load([](MatrixLoader& l) { return l.matrix({{"q", 2, 64}}); });
  EXPECT_THAT(error_, HasSubstr("q.scale holds a value that is not finite"));
}

TEST_F(MatrixLoaderTest, ExpertsFollowEachOtherEachWithGateAndUpInTurn) {
  std::vector<std::uint16_t> want_gated, want_plain;
  for (int e = 0; e < 3; ++e) {
    const std::string name = "e." + std::to_string(e);
    const std::int64_t rows = 16;  // as many for each: their values differ by position
    std::vector<std::uint16_t> of[3];
    for (int i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < rows * 8; ++j)
        of[i].push_back(f32_to_bf16(static_cast<float>(j + 1000 * i + 100 * e)));
      file_.add(name + (i == 0   ? ".gate.weight"
                        : i == 1 ? ".up.weight"
                                 : ".down.weight"),
                "BF16", "[16,8]", of[i].data(), 2 * of[i].size());
    }
    want_gated = joined(want_gated, in_turn(of[0], of[1], 8));
    want_plain = joined(want_plain, of[2]);
  }
  const DeviceMatrix gated =
      load([](MatrixLoader& l) { return l.gated_experts({"e.{}.gate", 16, 8}, {"e.{}.up", 16, 8}, 3); });
  EXPECT_EQ(gated.n, 96);
  EXPECT_EQ(on_device<std::uint16_t>(gated.data), want_gated);
  const DeviceMatrix plain = load([](MatrixLoader& l) {
    auto loaded = l.experts({"e.{}.down", 16, 8}, 3);
    EXPECT_EQ(l.expert_bytes(), 3U * 16 * 8 * 2);
    return loaded;
  });
  EXPECT_EQ(on_device<std::uint16_t>(plain.data), want_plain);
}

TEST_F(MatrixLoaderTest, ExpertsOfE4m3KeepTheirBlocks) {
  declare(Granularity::kBlock);
  Codes want_gated, want_plain;
  for (int e = 0; e < 2; ++e) {
    const std::string name = "e." + std::to_string(e);
    const Codes gate = file_.add_e4m3(name + ".gate.weight", 136, 192);
    const Codes up = file_.add_e4m3(name + ".up.weight", 136, 192);
    const Codes down = file_.add_e4m3(name + ".down.weight", 192, 144);
    const float base = 100.0F * static_cast<float>(e);
    file_.add_scales(name + ".gate.scale", 2, 2, {base + 1, base + 2, base + 3, base + 4});
    file_.add_scales(name + ".up.scale", 2, 2, {base + 5, base + 6, base + 7, base + 8});
    file_.add_scales(name + ".down.scale", 2, 2, {base + 9, base + 10, base + 11, base + 12});
    want_gated = joined(want_gated, in_turn(gate, up, 192));
    want_plain = joined(want_plain, down);
  }
  const DeviceMatrix gated = load(
      [](MatrixLoader& l) { return l.gated_experts({"e.{}.gate", 136, 192}, {"e.{}.up", 136, 192}, 2); });
  EXPECT_EQ(gated.type, DType::kF8E4M3);
  EXPECT_TRUE(gated.block_scales);
  EXPECT_EQ(on_device<std::uint8_t>(gated.data), want_gated);
  EXPECT_THAT(on_device<float>(gated.scales),
              ElementsAre(1, 2, 5, 6, 3, 4, 7, 8, 101, 102, 105, 106, 103, 104, 107, 108));
  // Each expert's blocks begin at its first row, though 192 is no multiple of 128.
  const DeviceMatrix plain = load([](MatrixLoader& l) { return l.experts({"e.{}.down", 192, 144}, 2); });
  EXPECT_TRUE(plain.block_scales);
  EXPECT_EQ(on_device<std::uint8_t>(plain.data), want_plain);
  EXPECT_THAT(on_device<float>(plain.scales), ElementsAre(9, 10, 11, 12, 109, 110, 111, 112));
}

TEST_F(MatrixLoaderTest, ScalesOfExpertsBecomeAScaleARow) {
  declare(Granularity::kTensor);
  for (int e = 0; e < 2; ++e) {
    const std::string name = "e." + std::to_string(e);
    file_.add_e4m3(name + ".gate.weight", 16, 64);
    file_.add_e4m3(name + ".up.weight", 16, 64);
    file_.add_scales(name + ".gate.scale", 1, 1, {static_cast<float>(2 * e)});
    file_.add_scales(name + ".up.scale", 1, 1, {static_cast<float>(2 * e + 1)});
  }
  const DeviceMatrix m =
      load([](MatrixLoader& l) { return l.gated_experts({"e.{}.gate", 16, 64}, {"e.{}.up", 16, 64}, 2); });
  EXPECT_EQ(m.type, DType::kF8E4M3);
  EXPECT_FALSE(m.block_scales);
  std::vector<float> want;
  for (const float first : {0.0F, 2.0F})
    for (const float scale : {first, first + 1, first, first + 1}) want.insert(want.end(), 8, scale);
  EXPECT_EQ(on_device<float>(m.scales), want);
}

TEST_F(MatrixLoaderTest, FloatExpertsArePlannedAsE4m3WhereAskedTo) {
  MatrixLoader loader(device_, nullptr, {.quantize = true});
  const auto planned = loader.experts({"e.{}.down", 32, 64}, 3);
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->type, DType::kF8E4M3);
  EXPECT_FALSE(planned->block_scales);
  EXPECT_EQ(loader.expert_bytes(), 3U * 32 * (64 + sizeof(float)));
}

TEST_F(MatrixLoaderTest, InventedFp8MatricesAreE4m3WithAScaleARow) {
  declare(Granularity::kBlock);
  MatrixLoader loader(device_, nullptr, {});
  loader.finder().declare(config_);
  const auto planned = loader.matrix({{"q", 2, 192}});
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->type, DType::kF8E4M3);
  EXPECT_FALSE(planned->block_scales);
  EXPECT_EQ(loader.device_bytes(), 2U * 192 + 2 * sizeof(float));
}

}  // namespace
}  // namespace met::layers::cuda
