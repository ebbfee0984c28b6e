// Any JSON as a schema, in each style: no crash, no unbounded work; an error names a place; what compiles has a next
// token from every state that it leads to, and a whole document of the JSON style is JSON. The first byte chooses
// the style and seeds the walk.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string_view>

#include "tests/grammar/byte_vocabulary.h"

namespace {

using namespace met::grammar;

/// Random allowed bytes, the end where it may be; false: a state allows nothing.
bool walk(const met::sampling::Constraint& constraint, std::uint64_t seed, std::string& text, bool& ended) {
  std::mt19937_64 random(seed);
  const auto state = constraint.begin();
  for (int step = 0; step < 200; ++step) {
    const auto mask = test::mask_of(*state);
    std::vector<std::int32_t> ids;
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(test::kWidth); ++id)
      if (test::has_bit(mask, id)) ids.push_back(id);
    if (ids.empty()) return false;
    if (test::has_bit(mask, test::kEnd)) {
      ended = true;
      return true;
    }
    const std::int32_t id = ids[random() % ids.size()];
    if (id > 255 || !state->accept(id)) return false;
    text += static_cast<char>(id);
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const auto schema =
      met::json::parse({reinterpret_cast<const char*>(data) + 1, size - 1}, {.values_max = 4000});
  if (!schema) return 0;
  constexpr const char* kStyles[] = {"json",        "gemma4",       "python", "qwen_xml",
                                     "minimax_xml", "deepseek_xml", "glm_xml"};
  const std::size_t style = data[0] % std::size(kStyles);
  // Small budgets: thousands of schemas come in a row.
  static Compiler compiler(test::byte_vocabulary,
                           {.compile_ms = 40, .compile_bytes = 32U << 20, .cache_bytes = 1});
  met::json::Object content{{"type", "json_schema"}, {"json_schema", *schema}, {"style", kStyles[style]}};
  met::json::Object tag{{"type", "structural_tag"}, {"format", std::move(content)}};
  const auto compiled =
      compiler.compile({.kind = Kind::kStructuralTag, .value = std::move(tag), .field = "f"});
  if (!compiled) {
    if (compiled.error().field != "f" || compiled.error().message.size() < 4) std::abort();
    return 0;
  }
  std::string text;
  bool ended = false;
  if (!walk(**compiled, data[0], text, ended)) std::abort();
  if (!ended || style != 0) return 0;
  const auto document = met::json::parse(text);
  // A number may have more digits than a double holds: it is JSON all the same.
  if (!document && !document.error().message.contains("out of range")) std::abort();
  return 0;
}
