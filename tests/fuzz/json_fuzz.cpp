// JSON of any kind: refused with a place, or read to a value whose text reads and writes as itself. (The value may
// be another: 1e2 is a double, its text 100 an integer.)
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = met::json::parse(text);
  const auto strict = met::json::parse(text, {.depth_max = 16, .values_max = 1000, .unique_keys = true});
  if (!value) {
    if (value.error().message.empty() || strict) std::abort();
    return 0;
  }
  const std::string written = met::json::write(*value);
  const auto again = met::json::parse(written);
  if (!again || met::json::write(*again) != written) std::abort();
  if (strict && *strict != *value) std::abort();
  return 0;
}
