#include "layers/cuda/matrix_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "config/model_config.h"
#include "core/error.h"

namespace met::layers::cuda {

namespace {

constexpr std::size_t kBf16Bytes = 2;

std::int64_t blocks_of(std::int64_t size) { return (size + config::kFp8Block - 1) / config::kFp8Block; }

void put_bf16(float value, std::byte* to) {
  const std::uint16_t bits = f32_to_bf16(value);
  std::memcpy(to, &bits, sizeof bits);
}

void floats_to_bf16(DType type, const std::byte* from, std::size_t k, std::byte* to) {
  if (type == DType::kBF16) {
    std::memcpy(to, from, k * kBf16Bytes);
    return;
  }
  for (std::size_t i = 0; i < k; ++i) {
    float value = 0;
    if (type == DType::kF32) {
      std::memcpy(&value, from + 4 * i, sizeof value);
    } else {
      std::uint16_t half = 0;
      std::memcpy(&half, from + 2 * i, sizeof half);
      value = f16_to_f32(half);
    }
    put_bf16(value, to + kBf16Bytes * i);
  }
}

const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (std::size_t code = 0; code < all.size(); ++code)
      all[code] = f8e4m3_to_f32(static_cast<std::uint8_t>(code));
    return all;
  }();
  return values;
}

void widen_e4m3(const RowSource& source, std::int64_t row, const std::byte* from, std::size_t k,
                std::byte* to) {
  const std::array<float, 256>& values = e4m3_values();
  const float* scales = source.scales.data() + row / source.scale_rows * source.scale_groups;
  for (std::size_t i = 0; i < k; ++i) {
    const float scale = source.scale_groups == 1 ? scales[0] : scales[i / config::kFp8Block];
    put_bf16(values[static_cast<std::size_t>(from[i])] * scale, to + kBf16Bytes * i);
  }
}

}  // namespace

std::int64_t RowStack::rows() const {
  std::int64_t n = 0;
  for (const RowSource& source : sources) n += source.rows;
  return n;
}

RowAt row_at(const RowStack& stack, std::int64_t r) {
  if (stack.gated) {
    const std::int64_t both = 2 * stack.sources[0].rows;
    const auto gate = static_cast<std::size_t>(r / both) * 2;
    const std::int64_t group = r % both / (2 * kGatedGroup);
    const std::int64_t within = r % (2 * kGatedGroup);
    return {within < kGatedGroup ? gate : gate + 1, group * kGatedGroup + within % kGatedGroup};
  }
  RowAt at{0, r};
  while (at.row >= stack.sources[at.source].rows) at.row -= stack.sources[at.source++].rows;
  return at;
}

void write_rows(const RowStack& stack, DType type, std::int64_t begin, std::int64_t end, std::byte* to) {
  const auto k = static_cast<std::size_t>(stack.k);
  for (std::int64_t r = begin; r < end; ++r, to += bytes_of(type, k)) {
    const RowAt at = row_at(stack, r);
    const RowSource& source = stack.sources[at.source];
    const DType stored = source.tensor->dtype;
    const std::byte* from =
        source.tensor->bytes.data() + static_cast<std::size_t>(at.row) * bytes_of(stored, k);
    if (type == DType::kF8E4M3)
      std::memcpy(to, from, k);
    else if (stored == DType::kF8E4M3)
      widen_e4m3(source, at.row, from, k, to);
    else
      floats_to_bf16(stored, from, k, to);
  }
}

std::vector<float> row_scales(const RowStack& stack) {
  std::vector<float> out;
  const std::int64_t rows = stack.rows();
  out.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    const RowAt at = row_at(stack, r);
    const RowSource& source = stack.sources[at.source];
    out.push_back(source.scales[static_cast<std::size_t>(at.row / source.scale_rows)]);
  }
  return out;
}

bool blocks_fit(const RowStack& stack) {
  if (stack.gated || stack.experts) return true;
  return std::all_of(stack.sources.begin(), stack.sources.end() - 1,
                     [](const RowSource& source) { return source.rows % config::kFp8Block == 0; });
}

std::int64_t block_scale_rows(const RowStack& stack) {
  std::int64_t rows = 0;
  for (const RowSource& source : stack.sources) rows += blocks_of(source.rows);
  return rows;
}

std::vector<float> block_scales(const RowStack& stack) {
  MET_CHECK(blocks_fit(stack), "a block of 128 rows that several matrices share");
  const auto groups = static_cast<std::ptrdiff_t>(blocks_of(stack.k));
  std::vector<float> out;
  const auto append = [&](const RowSource& source, std::int64_t block) {
    const auto begin = source.scales.begin() + block * groups;
    out.insert(out.end(), begin, begin + groups);
  };
  if (stack.gated) {
    for (std::size_t gate = 0; gate < stack.sources.size(); gate += 2)
      for (std::int64_t block = 0; block < blocks_of(stack.sources[gate].rows); ++block) {
        append(stack.sources[gate], block);
        append(stack.sources[gate + 1], block);
      }
  } else {
    for (const RowSource& source : stack.sources)
      for (std::int64_t block = 0; block < blocks_of(source.rows); ++block) append(source, block);
  }
  return out;
}

}  // namespace met::layers::cuda
