// Python's string methods, on code points, with marks.
#include <algorithm>

#include "core/utf8.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace met::text::jinja {

std::size_t code_points(const Str& s) {
  if (s.ascii) return s.text.size();
  return static_cast<std::size_t>(
      std::ranges::count_if(s.text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::size_t byte_offset(const Str& s, std::size_t index) {
  if (s.ascii) return std::min(index, s.text.size());
  std::size_t at = 0;
  for (; index > 0 && at < s.text.size(); --index) {
    ++at;
    while (at < s.text.size() && (static_cast<unsigned char>(s.text[at]) & 0xC0U) == 0x80U) ++at;
  }
  return at;
}

std::vector<Value> characters(const Heap& heap, const Str& s) {
  std::vector<Value> items;
  heap.step(s.text.size());
  for (std::size_t at = 0; at < s.text.size();) {
    const std::size_t size = utf8::decode(std::string_view(s.text).substr(at)).length;
    items.push_back(substring(heap, s, at, at + size));
    at += size;
  }
  return items;
}

namespace {

std::vector<char32_t> points_of(const Str& s) {
  std::vector<char32_t> points;
  for (std::string_view rest = s.text; !rest.empty();) {
    const utf8::Decoded d = utf8::decode(rest);
    points.push_back(d.code_point);
    rest.remove_prefix(d.length);
  }
  return points;
}

/// The code point that ends at `end`, and where it begins.
std::pair<char32_t, std::size_t> last_point(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
  return {utf8::decode(text.substr(begin, end - begin)).code_point, begin};
}

}  // namespace

Value strip(const Heap& heap, const Str& s, const Str* chars, Side side) {
  const std::vector<char32_t> set = chars != nullptr ? points_of(*chars) : std::vector<char32_t>{};
  const auto drops = [&](char32_t p) {
    return chars != nullptr ? std::ranges::find(set, p) != set.end() : is_space(p);
  };
  heap.scan(s.text.size() * (1 + set.size() / 8));
  std::size_t begin = 0;
  std::size_t end = s.text.size();
  while (side != Side::kRight && begin < end) {
    const utf8::Decoded d = utf8::decode(std::string_view(s.text).substr(begin));
    if (!drops(d.code_point)) break;
    begin += d.length;
  }
  while (side != Side::kLeft && end > begin) {
    const auto [point, at] = last_point(s.text, end);
    if (!drops(point)) break;
    end = at;
  }
  return substring(heap, s, begin, end);
}

Value replace(const Heap& heap, const Str& s, const Str& from, const Str& to, Int count) {
  StrBuilder out(heap);
  std::size_t at = 0;
  if (from.text.empty()) {  // between all code points and at both ends
    while (count != 0) {
      out.append(to);
      --count;
      if (at >= s.text.size()) break;
      const std::size_t size = utf8::decode(std::string_view(s.text).substr(at)).length;
      out.append(s, at, at + size);
      at += size;
    }
  }
  while (count != 0 && !from.text.empty()) {
    const std::size_t found = s.text.find(from.text, at);
    if (found == std::string::npos) break;
    heap.step();
    out.append(s, at, found);
    out.append(to);
    at = found + from.text.size();
    --count;
  }
  out.append(s, at, s.text.size());
  return out.take();
}

namespace {

std::vector<Value> split_space(const Heap& heap, const Str& s, Int count, bool from_right) {
  std::vector<ByteRange> words;
  std::size_t begin = std::string::npos;
  for (std::size_t at = 0; at < s.text.size();) {
    const utf8::Decoded d = utf8::decode(std::string_view(s.text).substr(at));
    if (is_space(d.code_point)) {
      if (begin != std::string::npos) words.push_back({begin, at});
      begin = std::string::npos;
    } else if (begin == std::string::npos) {
      begin = at;
    }
    at += d.length;
  }
  if (begin != std::string::npos) words.push_back({begin, s.text.size()});
  // With a limit the rest stays whole, white space at its far end included.
  if (count >= 0 && Int{static_cast<std::int64_t>(words.size())} > count) {
    const auto keep = static_cast<std::size_t>(count);
    if (from_right) {
      const std::size_t end = words[words.size() - 1 - keep].end;
      words.erase(words.begin(), words.end() - static_cast<std::ptrdiff_t>(keep));
      words.insert(words.begin(), {0, end});
    } else {
      const std::size_t rest = words[keep].begin;
      words.resize(keep);
      words.push_back({rest, s.text.size()});
    }
  }
  std::vector<Value> items;
  for (const ByteRange& w : words) items.push_back(substring(heap, s, w.begin, w.end));
  return items;
}

}  // namespace

std::vector<Value> split(const Heap& heap, const Str& s, const Str* separator, Int count, bool from_right) {
  heap.scan(s.text.size());
  if (separator == nullptr) return split_space(heap, s, count, from_right);
  if (separator->text.empty()) value_error("empty separator");
  std::vector<Value> items;
  const std::string& sep = separator->text;
  if (from_right) {
    std::size_t end = s.text.size();
    while (count != 0 && end >= sep.size()) {
      const std::size_t found = s.text.rfind(sep, end - sep.size());
      if (found == std::string::npos) break;
      items.push_back(substring(heap, s, found + sep.size(), end));
      end = found;
      --count;
    }
    items.push_back(substring(heap, s, 0, end));
    std::ranges::reverse(items);
    return items;
  }
  std::size_t at = 0;
  while (count != 0) {
    const std::size_t found = s.text.find(sep, at);
    if (found == std::string::npos) break;
    items.push_back(substring(heap, s, at, found));
    at = found + sep.size();
    --count;
  }
  items.push_back(substring(heap, s, at, s.text.size()));
  return items;
}

std::vector<Value> split_lines(const Heap& heap, const Str& s, bool keep_ends) {
  std::vector<Value> items;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < s.text.size();) {
    const utf8::Decoded d = utf8::decode(std::string_view(s.text).substr(at));
    const char32_t p = d.code_point;
    const std::size_t end = at;
    at += d.length;
    if (!((p >= 0x0A && p <= 0x0D) || (p >= 0x1C && p <= 0x1E) || p == 0x85 || p == 0x2028 || p == 0x2029))
      continue;
    if (p == '\r' && at < s.text.size() && s.text[at] == '\n') ++at;
    items.push_back(substring(heap, s, begin, keep_ends ? at : end));
    begin = at;
  }
  if (begin < s.text.size()) items.push_back(substring(heap, s, begin, s.text.size()));
  return items;
}

Value change_case(const Heap& heap, const Str& s, Case how) {
  StrBuilder out(heap);
  heap.scan(s.text.size() * 8);
  bool in_word = false;
  bool first = true;
  for (std::size_t at = 0; at < s.text.size();) {
    const utf8::Decoded d = utf8::decode(std::string_view(s.text).substr(at));
    const char32_t p = d.code_point;
    const bool untrusted = any_untrusted(s, at, at + d.length);
    const auto put = [&](std::u32string_view points) {
      for (const char32_t q : points) out.append_code_point(q, untrusted);
    };
    const auto next_is_cased = [&] {
      const std::string_view rest = std::string_view(s.text).substr(at + d.length);
      return !rest.empty() && is_cased(utf8::decode(rest).code_point);
    };
    const auto lower = [&] {
      if (p == 0x3A3 && in_word && !next_is_cased()) return std::u32string{0x3C2};  // final sigma
      return to_lower(p);
    };
    switch (how) {
      case Case::kUpper:
        put(to_upper(p));
        break;
      case Case::kLower:
        put(lower());
        break;
      case Case::kSwap:
        put(is_upper(p) ? lower() : to_upper(p));
        break;
      case Case::kCapitalize:
        put(first ? to_title(p) : lower());
        break;
      case Case::kTitle:
        put(in_word ? lower() : to_title(p));
        break;
      case Case::kJinjaTitle:
        put(first ? to_upper(p) : lower());
        break;
    }
    in_word = is_cased(p);
    // The filter starts words after white space and brackets only; the method after anything uncased.
    first =
        how == Case::kJinjaTitle && (is_space(p) || p == '-' || p == '(' || p == '{' || p == '[' || p == '<');
    at += d.length;
  }
  return out.take();
}

bool is_class(const Str& s, Class which) {
  if (which == Class::kAscii) return s.ascii;
  if (s.text.empty()) return false;
  bool cased = false;
  bool in_word = false;
  for (const char32_t p : points_of(s)) {
    switch (which) {
      case Class::kAlpha:
        if (!is_alpha(p)) return false;
        break;
      case Class::kDigit:
      case Class::kDecimal:
        if (!is_digit(p)) return false;
        break;
      case Class::kAlnum:
        if (!is_alpha(p) && !is_digit(p)) return false;
        break;
      case Class::kSpace:
        if (!is_space(p)) return false;
        break;
      case Class::kUpper:
        if (is_lower(p)) return false;
        break;
      case Class::kLower:
        if (is_upper(p)) return false;
        break;
      case Class::kTitle:
        if ((is_upper(p) && in_word) || (is_lower(p) && !in_word)) return false;
        in_word = is_cased(p);
        break;
      case Class::kAscii:
        break;
    }
    cased = cased || is_cased(p);
  }
  const bool needs_cased = which == Class::kUpper || which == Class::kLower || which == Class::kTitle;
  return cased || !needs_cased;
}

Value pad(const Heap& heap, const Str& s, Int width, std::string_view fill, int side) {
  const Int size = static_cast<std::int64_t>(code_points(s));
  const Int missing = width > size ? width - size : 0;
  if (missing > 1'000'000) value_error("a width of " + int_text(width) + " is too large");
  Int left = side > 0 ? missing : 0;
  if (side == 0) left = missing / 2 + (missing & width & 1);
  StrBuilder out(heap);
  for (Int i = 0; i < left; ++i) out.append(fill);
  out.append(s);
  for (Int i = left; i < missing; ++i) out.append(fill);
  return out.take();
}

}  // namespace met::text::jinja
