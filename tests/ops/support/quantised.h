// Random weight rows of any storage type.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "tests/ops/support/random.h"

namespace met::test {

/// `n` rows of k values: random numbers, scales near `scale` (0x1p-k exact in f16).
inline std::vector<std::byte> random_rows(Random& random, DType type, std::int64_t n, std::int64_t k) {
  const std::size_t row = bytes_of(type, static_cast<std::size_t>(k));
  std::vector<std::byte> rows(row * static_cast<std::size_t>(n));
  if (info(type).block_elements == 1) {
    std::normal_distribution<float> normal;
    const std::size_t size = static_cast<std::size_t>(info(type).block_bytes);
    for (std::size_t i = 0; i < rows.size(); i += size) {
      const float value = normal(random);
      const std::uint16_t half = type == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
      if (size == 1)
        rows[i] = std::byte{f32_to_f8e4m3(value)};
      else if (size == 4)
        std::memcpy(rows.data() + i, &value, 4);
      else
        std::memcpy(rows.data() + i, &half, 2);
    }
    return rows;
  }
  for (std::byte& byte : rows) byte = std::byte(random() & 0xFFU);
  const auto block = static_cast<std::size_t>(info(type).block_bytes);
  std::uniform_real_distribution<float> scale(0.001F, 0.02F);
  const auto put = [&](std::size_t at) {
    const std::uint16_t bits = f32_to_f16(random() % 2 == 0 ? scale(random) : -scale(random));
    std::memcpy(rows.data() + at, &bits, 2);
  };
  for (std::size_t at = 0; at < rows.size(); at += block) {
    switch (type) {
      case DType::kMXFP4:
        rows[at] = std::byte(118 + random() % 8);
        break;
      case DType::kQ2_K:
        put(at + 80), put(at + 82);
        break;
      case DType::kQ3_K:
        put(at + 108);
        break;
      case DType::kQ6_K:
        put(at + 208);
        break;
      case DType::kQ4_1:
      case DType::kQ5_1:
      case DType::kQ4_K:
      case DType::kQ5_K:
        put(at), put(at + 2);
        break;
      default:
        put(at);
    }
  }
  return rows;
}

/// A test's name: Q4_K_n33_k256...
inline std::string type_name(DType type) { return std::string(info(type).name); }

}  // namespace met::test
