// Any bytes as a template: compile and render end in a value or an error, within their limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/json.h"
#include "text/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace met;
  static const json::Value messages = *json::parse(
      R"([{"role":"user","content":"é🙂 <b>"},{"role":"assistant","content":null,"tool_calls":[{"function":
      {"name":"f","arguments":{"a":[1,2.5,true]}}}]}])");
  text::jinja::Limits limits;
  limits.steps_max = 200'000;
  limits.time_ms_max = 500;
  limits.memory_bytes_max = 16U << 20;
  limits.output_bytes_max = 1U << 20;
  const auto compiled = text::jinja::Template::compile({reinterpret_cast<const char*>(data), size}, limits);
  if (!compiled) return 0;
  std::tm now{};
  now.tm_mday = 1;
  const auto rendered = (*compiled)->render({{"messages", &messages, true}}, now);
  if (!rendered) return 0;
  std::size_t at = 0;  // marks are sorted, disjoint and inside the text
  for (const auto& r : rendered->untrusted) {
    if (r.begin < at || r.end <= r.begin || r.end > rendered->text.size()) __builtin_trap();
    at = r.end;
  }
  return 0;
}
