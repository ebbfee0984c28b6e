// FNV-1a: names of generated files.
#pragma once

#include <cstdint>
#include <string_view>

namespace met::closure {

/// FNV-1a of 64 bits; the low 48 name a generated file.
constexpr std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

}  // namespace met::closure
