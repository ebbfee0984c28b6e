#include "text/tools/tool_set.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/hex.h"
#include "text/machine/answer_sink.h"

namespace met::text {
namespace {

bool is_integral(std::string_view number) {
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::result_out_of_range) return number.find_first_of(".eE") == std::string_view::npos;
  return error == std::errc{} && std::trunc(value) == value;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return out;
}

}  // namespace

const Tool* ToolSet::find(std::string_view name) const {
  const auto it = std::ranges::find(tools_, name, &Tool::name);
  return it == tools_.end() ? nullptr : &*it;
}

JsonTypes ToolSet::types(std::string_view tool, std::string_view parameter) const {
  const Tool* found = find(tool);
  if (found == nullptr) return {};
  return member_types(found->parameters, parameter);
}

std::string_view trim_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool is_json_number(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - from;
  };
  if (text.starts_with('-')) ++at;
  const std::size_t whole = at;
  if (digits() == 0 || (text[whole] == '0' && at > whole + 1)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

void append_escaped(std::string_view bytes, std::string& out) {
  constexpr std::string_view kShort = "btn_fr";  // of U+0008 to U+000D; U+000B has none
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x08 && byte <= 0x0D && byte != 0x0B) {
      out += '\\';
      out += kShort[byte - 0x08];
    } else if (byte < 0x20) {
      out += "\\u00";
      hex::append(byte, 2, out);
    } else {
      out += c;
    }
  }
}

std::string json_of(std::string_view text, JsonTypes types) {
  const std::string_view value = trim_blanks(text);
  if (types.has(JsonTypes::kNull) && value == "null") return "null";
  if (!types.is_text()) {
    if (types.has(JsonTypes::kBoolean))
      if (std::string word = lowered(value); word == "true" || word == "false") return word;
    if (types.has(JsonTypes::kInteger | JsonTypes::kNumber) && is_json_number(value) &&
        (types.has(JsonTypes::kNumber) || is_integral(value)))
      return std::string(value);
    const bool array = types.has(JsonTypes::kArray) && value.starts_with('[');
    const bool object = types.has(JsonTypes::kObject) && value.starts_with('{');
    if ((array || object) && json::parse(value)) return std::string(value);
  }
  std::string out = "\"";
  append_escaped(text, out);
  return out + '"';
}

}  // namespace met::text
