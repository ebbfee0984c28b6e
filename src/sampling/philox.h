// Counter-based random numbers: no state, so a draw is the same wherever and whenever it is made (D1).
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace met::sampling {

/// What a draw is for; part of the counter, so that draws of different purposes are independent.
enum class Purpose : std::uint32_t { kSample = 0, kAccept = 1, kResidual = 2, kBonus = 3, kXtc = 4 };

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Philox 4x32 with 10 rounds: four random words of a counter and a key.
constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// A number in [0, 1) with 53 bits, of one draw: key = seed, counter = (position, choice, purpose, draw).
/// `position` counts tokens of the sequence and stays below 2^32.
constexpr double uniform(std::uint64_t seed, std::int64_t position, int choice, Purpose purpose,
                         std::uint32_t draw = 0) {
  const PhiloxCounter words =
      philox({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(choice),
              static_cast<std::uint32_t>(purpose), draw},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)});
  const std::uint64_t bits = (std::uint64_t{words[1]} << 32U | words[0]) >> 11U;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace met::sampling
