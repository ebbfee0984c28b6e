// The oracle itself, against values that gguf.quants computed (data/make_ggml_types.py).
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "core/json.h"
#include "tests/ops/oracle/dequantise.h"

namespace met::test {
namespace {

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(std::byte(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST(DequantiseOracle, AgreesWithGgufQuants) {
  std::ifstream file(MET_SOURCE_DIR "/tests/ops/data/ggml_types.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto cases = json::parse(text.str());
  ASSERT_TRUE(cases);
  constexpr DType kTypes[] = {DType::kQ4_0,   DType::kQ4_1,   DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                              DType::kQ2_K,   DType::kQ3_K,   DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                              DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4};
  for (const DType type : kTypes) {
    const json::Value* entry = cases->find(info(type).name);
    ASSERT_NE(entry, nullptr) << info(type).name;
    const std::vector<std::byte> blocks = from_hex(entry->find("blocks")->as_string());
    const std::vector<std::byte> values = from_hex(entry->find("values")->as_string());
    ASSERT_EQ(values.size(), 512 * sizeof(float));
    const std::vector<double> got = oracle::dequantise_row(type, blocks.data(), 512);
    for (std::size_t i = 0; i < 512; ++i) {
      float want;
      std::memcpy(&want, values.data() + 4 * i, 4);
      ASSERT_NEAR(got[i], want, 1e-6 * std::abs(want) + 1e-9) << info(type).name << " value " << i;
    }
  }
}

}  // namespace
}  // namespace met::test
