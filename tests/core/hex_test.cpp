#include "core/hex.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace met::hex {
namespace {

TEST(Hex, DigitsOfBothCasesAndNothingElseHaveAValue) {
  for (char32_t c = 0; c < 0x200; ++c) {
    const char text[] = {static_cast<char>(c), '\0'};
    char* end = nullptr;
    const long want = std::strtol(text, &end, 16);
    const bool digit = c < 0x80 && end == text + 1;
    EXPECT_EQ(value(c), digit ? want : -1) << static_cast<unsigned>(c);
  }
  EXPECT_EQ(value(0x10061), -1);
}

TEST(Hex, NumbersAreWrittenWithTheirLastDigits) {
  for (const std::uint64_t number : {0ULL, 0x9aULL, 0xfedcba9876543210ULL})
    for (const int digits : {1, 2, 4, 8, 16}) {
      char want[32];
      std::snprintf(want, sizeof want, "%016llx", static_cast<unsigned long long>(number));
      std::string out = "<";
      append(number, digits, out);
      EXPECT_EQ(out, "<" + std::string(want + 16 - digits));
    }
}

}  // namespace
}  // namespace met::hex
