#include "text/tokenizer/scanners.h"

#include <array>
#include <cstdint>

#include "text/tokenizer/unicode.h"

namespace met::text {
namespace {

// What the patterns distinguish: letters, numbers, line ends, other blanks, the rest.
enum class Kind : unsigned char { kLetter, kNumber, kLineEnd, kBlank, kRest, kNotAscii };

struct Char {
  Kind kind;
  std::size_t size;
};

constexpr auto kAscii = [] {
  std::array<Kind, 256> kinds{};
  kinds.fill(Kind::kNotAscii);
  for (unsigned c = 0; c < 128; ++c) {
    kinds[c] = (c | 32U) >= 'a' && (c | 32U) <= 'z'              ? Kind::kLetter
               : c >= '0' && c <= '9'                            ? Kind::kNumber
               : c == '\r' || c == '\n'                          ? Kind::kLineEnd
               : c == ' ' || c == '\t' || c == 0x0B || c == 0x0C ? Kind::kBlank
                                                                 : Kind::kRest;
  }
  return kinds;
}();

Char char_at(std::string_view text, std::size_t at) {
  const Kind ascii = kAscii[static_cast<unsigned char>(text[at])];
  if (ascii != Kind::kNotAscii) return {ascii, 1};
  const Point p = first_point(text.substr(at));
  if (is_space(p.c)) return {Kind::kBlank, p.size};
  const CharClass k = char_class(p.c);
  return {k == CharClass::kLetter   ? Kind::kLetter
          : k == CharClass::kNumber ? Kind::kNumber
                                    : Kind::kRest,
          p.size};
}

// Past the run of `kind` that starts at `at`, at most `most` characters.
std::size_t run_end(std::string_view text, std::size_t at, Kind kind) {
  for (;;) {
    while (at < text.size() && kAscii[static_cast<unsigned char>(text[at])] == kind) ++at;
    if (at == text.size() || kAscii[static_cast<unsigned char>(text[at])] != Kind::kNotAscii) return at;
    const Char c = char_at(text, at);
    if (c.kind != kind) return at;
    at += c.size;
  }
}

// The same for at most `most` characters.
std::size_t run_end(std::string_view text, std::size_t at, Kind kind, std::size_t most) {
  for (; at < text.size() && most > 0; --most) {
    const Char c = char_at(text, at);
    if (c.kind != kind) break;
    at += c.size;
  }
  return at;
}

// End of a contraction ('s 't 're 've 'm 'll 'd) that starts at `at`, or `at`. Without case the long s counts
// too.
template <bool AnyCase>
std::size_t contraction_end(std::string_view text, std::size_t at) {
  if (text[at] != '\'' || at + 1 >= text.size()) return at;
  const auto lower = [&](std::size_t i) -> char {
    if (i >= text.size()) return 0;
    const char c = text[i];
    return AnyCase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  switch (lower(at + 1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return at + 2;
    case 'r':
    case 'v':
      return lower(at + 2) == 'e' ? at + 3 : at;
    case 'l':
      return lower(at + 2) == 'l' ? at + 3 : at;
    default:
      return AnyCase && text.substr(at + 1).starts_with("\xC5\xBF") ? at + 3 : at;
  }
}

// A run of blanks and line ends from `at`: `\s+(?!\S)|\s+`, that is all of it at the end of the text, else
// all but its last character, but at least one.
std::size_t blanks_end(std::string_view text, std::size_t at) {
  std::size_t last = at;
  std::size_t end = at;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (c.kind != Kind::kBlank && c.kind != Kind::kLineEnd) return last == at ? end : last;
    last = end;
    end += c.size;
  }
  return end;
}

std::size_t scan_gpt2(std::string_view text, std::size_t& at, std::span<ByteRange> out) {
  std::size_t count = 0;
  while (at < text.size() && count < out.size()) {
    std::size_t end = contraction_end<false>(text, at);
    if (end == at) {
      const std::size_t body = text[at] == ' ' ? at + 1 : at;
      const Char c = body < text.size() ? char_at(text, body) : Char{Kind::kBlank, 0};
      if (c.kind == Kind::kLetter || c.kind == Kind::kNumber || c.kind == Kind::kRest)
        end = run_end(text, body + c.size, c.kind);
      else
        end = blanks_end(text, at);
    }
    out[count++] = {at, end};
    at = end;
  }
  return count;
}

// `\s*[\r\n]+|\s+(?!\S)|\s+`: up to the last line end of the run of blanks, else as blanks_end.
std::size_t lines_end(std::string_view text, std::size_t at) {
  std::size_t line_end = at;
  for (std::size_t i = at; i < text.size();) {
    const Char c = char_at(text, i);
    if (c.kind != Kind::kBlank && c.kind != Kind::kLineEnd) break;
    i += c.size;
    if (c.kind == Kind::kLineEnd) line_end = i;
  }
  return line_end > at ? line_end : blanks_end(text, at);
}

template <std::size_t Digits>
std::size_t scan_llama3(std::string_view text, std::size_t& at, std::span<ByteRange> out) {
  std::size_t count = 0;
  while (at < text.size() && count < out.size()) {
    std::size_t end = contraction_end<true>(text, at);
    if (end == at) {
      const Char c = char_at(text, at);
      const std::size_t next = at + c.size;
      const Kind follows = next < text.size() ? char_at(text, next).kind : Kind::kLineEnd;
      if (c.kind == Kind::kLetter)
        end = run_end(text, next, Kind::kLetter);
      else if (c.kind == Kind::kNumber)
        end = run_end(text, next, Kind::kNumber, Digits - 1);
      else if (c.kind != Kind::kLineEnd && follows == Kind::kLetter)
        end = run_end(text, next, Kind::kLetter);
      else if (c.kind == Kind::kRest || (text[at] == ' ' && follows == Kind::kRest))
        end = run_end(text, run_end(text, next, Kind::kRest), Kind::kLineEnd);
      else
        end = lines_end(text, at);
    }
    out[count++] = {at, end};
    at = end;
  }
  return count;
}

std::size_t scan_numbers(std::string_view text, std::size_t& at, std::span<ByteRange> out) {
  std::size_t count = 0;
  while (at < text.size() && count < out.size()) {
    const Char c = char_at(text, at);
    if (c.kind == Kind::kNumber) out[count++] = {at, at + c.size};
    at += c.size;
  }
  return count;
}

}  // namespace

Scanner scanner_for(std::string_view pattern) {
  if (pattern == kNumberPattern) return scan_numbers;
  if (pattern == kGpt2Pattern) return scan_gpt2;
  if (pattern == kLlama3Pattern) return scan_llama3<3>;
  if (pattern == kQwen2Pattern) return scan_llama3<1>;
  return nullptr;
}

}  // namespace met::text
