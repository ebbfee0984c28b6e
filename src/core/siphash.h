// SipHash-2-4 with a 128-bit result: the keyed identity of a KV block (rule B3).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace met {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

using SipKey = std::array<std::uint8_t, 16>;

/// Source: Aumasson and Bernstein, SipHash: a fast short-input PRF (2012), with the reference code's 128-bit
/// output.
Hash128 siphash128(const SipKey& key, std::span<const std::byte> data);

}  // namespace met

template <>
struct std::hash<met::Hash128> {
  std::size_t operator()(const met::Hash128& h) const noexcept { return h.low; }
};
