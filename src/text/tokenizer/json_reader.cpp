#include "text/tokenizer/json_reader.h"

#include <charconv>

#include "core/utf8.h"

namespace met::text {

std::unexpected<Error> JsonReader::problem(std::string_view what) const {
  return fail(ErrorCode::kInvalidArgument,
              "JSON error at byte " + std::to_string(at_) + ": " + std::string(what), "tokenizer.json");
}

char JsonReader::peek() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
    ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonReader::accept(char c) {
  if (peek() != c || at_ == text_.size()) return false;
  ++at_;
  return true;
}

Result<> JsonReader::expect(char c) {
  if (!accept(c)) return problem(std::string("expected '") + c + "'");
  return {};
}

Result<std::string_view> JsonReader::string(std::string& buffer) {
  MET_TRY(expect('"'));
  const std::size_t begin = at_;
  bool ascii = true;
  for (; at_ < text_.size(); ++at_) {
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c == '"' || c == '\\') break;
    if (c < 0x20) return problem("control character in a string");
    ascii = ascii && c < 0x80;
  }
  if (at_ >= text_.size()) return problem("a string without an end");
  std::string_view value = text_.substr(begin, at_ - begin);
  if (text_[at_] == '\\') {
    buffer = value;
    MET_TRY(unescape(buffer));
    value = buffer;
    ascii = false;
  }
  ++at_;
  if (!ascii && !utf8::valid(value)) return problem("a string that is not UTF-8");
  return value;
}

// From the first backslash to the closing quote, which stays.
Result<> JsonReader::unescape(std::string& buffer) {
  while (at_ < text_.size() && text_[at_] != '"') {
    const char c = text_[at_++];
    if (static_cast<unsigned char>(c) < 0x20) return problem("control character in a string");
    if (c != '\\') {
      buffer += c;
      continue;
    }
    const char escape = at_ < text_.size() ? text_[at_++] : '\0';
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    if (const std::size_t i = kNames.find(escape); i != std::string_view::npos && escape != '\0') {
      buffer += kValues[i];
      continue;
    }
    if (escape != 'u') return problem("unknown escape in a string");
    MET_ASSIGN(std::uint32_t point, hex4());
    if (point >= 0xD800 && point < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      MET_ASSIGN(const std::uint32_t low, hex4());
      if (low < 0xDC00 || low > 0xDFFF) return problem("lone surrogate in a string");
      point = 0x10000 + ((point - 0xD800) << 10U) + (low - 0xDC00);
    }
    if (point >= 0xD800 && point < 0xE000) return problem("lone surrogate in a string");
    utf8::append(point, buffer);
  }
  if (at_ >= text_.size()) return problem("a string without an end");
  return {};
}

Result<std::uint32_t> JsonReader::hex4() {
  std::uint32_t value = 0;
  const std::string_view digits = text_.substr(at_, 4);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != 4 || parsed.ec != std::errc{} || parsed.ptr != digits.data() + 4)
    return problem("four hexadecimal digits expected");
  at_ += 4;
  return value;
}

Result<std::int64_t> JsonReader::integer() {
  peek();
  std::int64_t value = 0;
  const char* end = text_.data() + text_.size();
  const auto parsed = std::from_chars(text_.data() + at_, end, value);
  if (parsed.ec != std::errc{}) return problem("expected an integer");
  at_ = static_cast<std::size_t>(parsed.ptr - text_.data());
  return value;
}

Result<double> JsonReader::number() {
  peek();
  double value = 0;
  const char* end = text_.data() + text_.size();
  const auto parsed = std::from_chars(text_.data() + at_, end, value);
  if (parsed.ec != std::errc{}) return problem("expected a number");
  at_ = static_cast<std::size_t>(parsed.ptr - text_.data());
  return value;
}

Result<std::string_view> JsonReader::skip() {
  const char first = peek();
  const std::size_t begin = at_;
  std::size_t depth = 0;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
        if (text_[at_] == '\\') ++at_;
      if (at_ >= text_.size()) return problem("a string without an end");
      if (depth == 0 && first == '"') {
        ++at_;
        return text_.substr(begin, at_ - begin);
      }
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) break;
      if (--depth == 0) {
        ++at_;
        return text_.substr(begin, at_ - begin);
      }
    } else if (c == ',' && depth == 0) {
      break;
    }
  }
  if (depth > 0 || at_ == begin) return problem("expected a value");
  return text_.substr(begin, at_ - begin);
}

}  // namespace met::text
