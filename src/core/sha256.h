// SHA-256. Source: FIPS 180-4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace met {

class Sha256 {
 public:
  /// Adds bytes as they are.
  Sha256& add(std::string_view bytes);
  /// Adds a length and the bytes, so that neighbouring fields cannot run into each other.
  Sha256& field(std::string_view bytes);
  /// 64 lower-case hex digits of everything added; the object is spent.
  std::string hex();

 private:
  void block(const unsigned char* bytes);
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> pending_{};
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace met
