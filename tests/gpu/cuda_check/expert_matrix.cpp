#include "tests/gpu/cuda_check/expert_matrix.h"

#include <algorithm>
#include <array>

namespace met::gpu::check {
namespace {

constexpr std::int64_t kBlock = 128;
constexpr double kTypical = 1.0 / 222;      // of a random code: its scale brings it to order 1
constexpr double kTypicalSmall = 33;        // of a small one
constexpr std::uint8_t kSmallCodes = 0x8f;  // subnormals and the least normal numbers

constexpr std::size_t kPeriod = 4'194'301;  // values repeat then, a prime: large matrices are made quickly

std::int64_t blocks_of(std::int64_t size) { return (size + kBlock - 1) / kBlock; }

const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (std::size_t code = 0; code < all.size(); ++code)
      all[code] = f8e4m3_to_f32(static_cast<std::uint8_t>(code));
    return all;
  }();
  return values;
}

/// Repeats what `out` holds up to `count` values.
template <class T>
void repeat(std::vector<T>& out, std::size_t count) {
  const std::size_t held = out.size();
  out.resize(count);
  for (std::size_t i = held; i < count; i += kPeriod)
    std::copy_n(out.begin() + static_cast<std::ptrdiff_t>(i - kPeriod), std::min(kPeriod, count - i),
                out.begin() + static_cast<std::ptrdiff_t>(i));
}

}  // namespace

ExpertMatrix::ExpertMatrix(ExpertStorage storage, bool gated, int experts, std::int64_t n, std::int64_t k,
                           Rng& rng, double magnitude)
    : storage_(storage), gated_(gated), n_(n), k_(k) {
  const auto count = static_cast<std::size_t>(experts * n * k);
  if (!e4m3()) {
    bf16_ = random_bf16(rng, std::min(count, kPeriod), magnitude);
    repeat(bf16_, count);
    scales_.push_back(0);
    return;
  }
  for (std::size_t i = 0; i < std::min(count, kPeriod); ++i) {
    auto code = static_cast<std::uint8_t>(rng.next());
    if ((code & 0x7f) == 0x7f) code ^= 1;
    codes_.push_back(code);
  }
  repeat(codes_, count);
  for (int expert = 1; expert < experts; expert += 2)
    for (std::size_t i = at(expert, 0, 0); i < at(expert + 1, 0, 0); ++i) codes_[i] &= kSmallCodes;
  const std::int64_t turns = gated ? 2 : 1;
  const std::int64_t each = block_scales() ? blocks_of(n / turns) * turns * blocks_of(k) : n;
  for (std::int64_t i = 0; i < experts * each; ++i) {
    const double typical = i / each % 2 != 0 ? kTypicalSmall : kTypical;
    scales_.push_back(static_cast<float>(magnitude * typical * rng.uniform(0.5, 1.5)));
  }
}

std::vector<std::byte> ExpertMatrix::bytes() const { return e4m3() ? raw(codes_) : bytes_of(bf16_); }

double ExpertMatrix::number(int expert, std::int64_t row, std::int64_t i) const {
  const std::size_t place = at(expert, row, i);
  return static_cast<double>(e4m3() ? e4m3_values()[codes_[place]] : bf16_to_f32(bf16_[place]));
}

std::size_t ExpertMatrix::scale_at(int expert, std::int64_t row, std::int64_t i) const {
  if (!block_scales()) return static_cast<std::size_t>(expert * n_ + row);
  const std::int64_t k_blocks = blocks_of(k_);
  if (!gated_)
    return static_cast<std::size_t>((expert * blocks_of(n_) + row / kBlock) * k_blocks + i / kBlock);
  const std::int64_t half = row / 16 * 8 + row % 8;  // row of gate or of up
  const std::int64_t up = row % 16 / 8;
  return static_cast<std::size_t>(((expert * blocks_of(n_ / 2) + half / kBlock) * 2 + up) * k_blocks +
                                  i / kBlock);
}

double ExpertMatrix::scale(int expert, std::int64_t row, std::int64_t i) const {
  return e4m3() ? static_cast<double>(scales_[scale_at(expert, row, i)]) : 1.0;
}

std::string name_of(ExpertStorage storage) {
  if (storage == ExpertStorage::kBf16) return "";
  return storage == ExpertStorage::kE4m3Rows ? " e4m3" : " e4m3 blocks";
}

}  // namespace met::gpu::check
