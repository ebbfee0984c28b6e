// Any text as a regular expression (first byte even) or as EBNF: no crash, no unbounded work. A regular expression
// that compiles takes exactly what its own matcher, which has no engine, says that it matches.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "grammar/regex.h"
#include "tests/grammar/byte_vocabulary.h"

using namespace met::grammar;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 2000) return 0;
  static Compiler compiler(test::byte_vocabulary,
                           {.compile_ms = 40, .compile_bytes = 32U << 20, .cache_bytes = 1});
  const std::string notation(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 != 0) {
    const auto compiled = compiler.compile({.kind = Kind::kEbnf, .value = notation, .field = "f"});
    if (compiled) (void)test::mask_of(*(*compiled)->begin());
    return 0;
  }
  const auto compiled = compiler.compile({.kind = Kind::kRegex, .value = notation, .field = "f"});
  const auto regex = parse_regex(notation);
  if (!compiled) return 0;
  if (!regex) std::abort();
  // A walk that a byte of the pattern steers, and what the matcher says of each text on the way.
  const auto state = (*compiled)->begin();
  std::string text;
  for (std::size_t i = 0; i < 12; ++i) {
    const auto mask = test::mask_of(*state);
    const bool may_end = test::has_bit(mask, test::kEnd);
    if (i > 0 && static_cast<unsigned char>(text.back()) < 0x80 &&
        may_end != matches(*regex, text, Unanchored::kWhole))
      std::abort();
    std::int32_t id = data[1 + (i * 7 + data[0]) % (size - 1)];
    for (int tried = 0; tried < 128 && !(id < 128 && test::has_bit(mask, id)); ++tried) id = (id + 1) % 128;
    if (id > 127 || !test::has_bit(mask, id)) return 0;
    if (!state->accept(id)) std::abort();
    text += static_cast<char>(id);
  }
  return 0;
}
