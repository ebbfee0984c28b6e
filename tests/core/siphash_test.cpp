#include "core/siphash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace met {
namespace {

// First bytes of the 128-bit vectors of the authors' reference: key 00..0f, message 00..len-1.
TEST(SipHash, MatchesTheReferenceVectors) {
  SipKey key;
  std::iota(key.begin(), key.end(), std::uint8_t{0});
  const auto digest = [&](std::size_t n) {
    std::vector<std::byte> m(n);
    for (std::size_t i = 0; i < n; ++i) m[i] = static_cast<std::byte>(i);
    return siphash128(key, m);
  };
  EXPECT_EQ(digest(0).low, 0xe6a825ba047f81a3U);
  EXPECT_EQ(digest(0).high, 0x930255c71472f66dU);
  EXPECT_EQ(digest(1).low, 0x44af996bd8c187daU);
  EXPECT_EQ(digest(1).high, 0x45fc229b11597634U);
}

}  // namespace
}  // namespace met
