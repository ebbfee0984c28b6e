#include "core/siphash.h"

#include <bit>
#include <cstring>

namespace met {

namespace {

struct State {
  std::uint64_t v0, v1, v2, v3;
  void rounds(int n) {
    for (int i = 0; i < n; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13);
      v1 ^= v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16);
      v3 ^= v2;
      v0 += v3;
      v3 = std::rotl(v3, 21);
      v3 ^= v0;
      v2 += v1;
      v1 = std::rotl(v1, 17);
      v1 ^= v2;
      v2 = std::rotl(v2, 32);
    }
  }
  std::uint64_t fold() const { return v0 ^ v1 ^ v2 ^ v3; }
};

std::uint64_t load(const void* bytes) {
  std::uint64_t v = 0;
  std::memcpy(&v, bytes, sizeof v);
  return v;
}

}  // namespace

Hash128 siphash128(const SipKey& key, std::span<const std::byte> data) {
  const std::uint64_t k0 = load(key.data());
  const std::uint64_t k1 = load(key.data() + 8);
  State s{0x736f6d6570736575U ^ k0, 0x646f72616e646f6dU ^ k1 ^ 0xEEU, 0x6c7967656e657261U ^ k0,
          0x7465646279746573U ^ k1};
  const std::size_t whole = data.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const std::uint64_t m = load(data.data() + i);
    s.v3 ^= m;
    s.rounds(2);
    s.v0 ^= m;
  }
  std::uint64_t last = static_cast<std::uint64_t>(data.size()) << 56U;
  for (std::size_t i = whole; i < data.size(); ++i)
    last |= static_cast<std::uint64_t>(data[i]) << (8U * (i - whole));
  s.v3 ^= last;
  s.rounds(2);
  s.v0 ^= last;
  s.v2 ^= 0xEEU;
  s.rounds(4);
  const std::uint64_t low = s.fold();
  s.v1 ^= 0xDDU;
  s.rounds(4);
  return {low, s.fold()};
}

}  // namespace met
