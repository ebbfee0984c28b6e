#include <algorithm>

#include "core/hex.h"
#include "core/json.h"
#include "core/utf8.h"
#include "text/jinja/strings.h"

namespace met::text::jinja {

StrBuilder::~StrBuilder() {
  if (heap_.budget() != nullptr) heap_.budget()->give(charged_);
}

void StrBuilder::charge() {
  if (heap_.budget() == nullptr) return;
  const std::size_t bytes = text_.capacity() + untrusted_.capacity() * sizeof(ByteRange);
  if (bytes <= charged_) return;
  heap_.budget()->take(bytes - charged_);
  charged_ = bytes;
}

void StrBuilder::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!untrusted_.empty() && untrusted_.back().end == begin)
    untrusted_.back().end = end;
  else
    untrusted_.push_back({begin, end});
}

void StrBuilder::append(std::string_view text, bool untrusted) {
  heap_.scan(text.size());
  if (heap_.budget() != nullptr && text.size() > heap_.budget()->limits().memory_bytes_max)
    heap_.budget()->take(text.size());
  text_ += text;
  if (untrusted) mark(text_.size() - text.size(), text_.size());
  charge();
}

void StrBuilder::append(const Str& s, std::size_t begin, std::size_t end) {
  const std::size_t at = text_.size();
  append(std::string_view(s.text).substr(begin, end - begin));
  for (const ByteRange& r : s.untrusted) {
    if (r.end <= begin) continue;
    if (r.begin >= end) break;
    mark(at + std::max(r.begin, begin) - begin, at + std::min(r.end, end) - begin);
  }
}

void StrBuilder::append_code_point(char32_t point, bool untrusted) {
  const std::size_t at = text_.size();
  utf8::append(point, text_);
  if (untrusted) mark(at, text_.size());
  if ((text_.size() & 1023U) < 4) charge();
}

Value StrBuilder::take(bool markup) {
  if (heap_.budget() != nullptr) heap_.budget()->give(charged_);
  charged_ = 0;
  return heap_.string(std::exchange(text_, {}), std::exchange(untrusted_, {}), markup);
}

Value escape_html(const Heap& heap, const Str& s) {
  StrBuilder out(heap);
  if (s.markup) {
    out.append(s);
    return out.take(/*markup=*/true);
  }
  constexpr std::string_view kFrom = "&<>\"'";
  constexpr std::string_view kTo[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  for (std::size_t at = 0; at < s.text.size();) {
    const std::size_t found = std::min(s.text.find_first_of(kFrom, at), s.text.size());
    out.append(s, at, found);
    if (found < s.text.size()) out.append(kTo[kFrom.find(s.text[found])], any_untrusted(s, found, found + 1));
    at = found + 1;
  }
  return out.take(/*markup=*/true);
}

Value join_markup(const Heap& heap, const std::vector<Value>& parts) {
  const bool markup =
      std::ranges::any_of(parts, [](const Value& v) { return v.is_string() && v.str().markup; });
  StrBuilder out(heap);
  for (const Value& part : parts) {
    if (markup)
      out.append(escape_html(heap, to_string(heap, part).str()).str());
    else
      append_string(out, part);
  }
  return out.take(markup);
}

bool any_untrusted(const Str& s, std::size_t begin, std::size_t end) {
  for (const ByteRange& r : s.untrusted)
    if (r.begin < end && r.end > begin) return true;
  return false;
}

Value substring(const Heap& heap, const Str& s, std::size_t begin, std::size_t end) {
  StrBuilder out(heap);
  out.append(s, begin, end);
  return out.take();
}

Value to_string(const Heap& heap, const Value& v) {
  if (v.is_string()) return v;
  StrBuilder out(heap);
  append_string(out, v);
  return out.take();
}

void append_string(StrBuilder& out, const Value& v) {
  if (v.is_string()) return out.append(v.str());
  if (v.is_undefined()) return;
  append_repr(out, v);
}

namespace {

void append_quoted(StrBuilder& out, const Str& s, bool bytes) {
  const bool has_single = s.text.find('\'') != std::string::npos;
  const char quote = has_single && s.text.find('"') == std::string::npos ? '"' : '\'';
  out.append({&quote, 1});
  for (std::size_t i = 0; i < s.text.size();) {
    const utf8::Decoded d = utf8::decode(std::string_view(s.text).substr(i));
    const bool untrusted = any_untrusted(s, i, i + d.length);
    const char32_t p = d.code_point;
    std::string piece;
    if (bytes && p >= 0x80) {
      for (const char c : s.text.substr(i, d.length)) {
        piece += "\\x";
        hex::append(static_cast<unsigned char>(c), 2, piece);
      }
    } else if (p == static_cast<unsigned char>(quote) || p == '\\')
      piece = {'\\', static_cast<char>(p)};
    else if (p == '\n')
      piece = "\\n";
    else if (p == '\r')
      piece = "\\r";
    else if (p == '\t')
      piece = "\\t";
    else if (p < 0x20 || (p >= 0x7F && p < 0xA1) || p == 0xAD)
      hex::append(p, 2, piece = "\\x");
    else if ((p >= 0x200B && p <= 0x200F) || (p >= 0x2028 && p <= 0x202F) || p == 0xFEFF)
      hex::append(p, 4, piece = "\\u");
    else
      piece = s.text.substr(i, d.length);
    out.append(piece, untrusted);
    i += d.length;
  }
  out.append({&quote, 1});
}

void append_items(StrBuilder& out, const std::vector<Value>& items, std::string_view open,
                  std::string_view close, int depth) {
  out.append(open);
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(", ");
    first = false;
    append_repr(out, item, depth + 1);
  }
  out.append(close);
}

std::string range_text(const Range& r) {
  std::string text = "range(" + std::to_string(r.start) + ", " + std::to_string(r.stop);
  if (r.step != 1) text += ", " + std::to_string(r.step);
  return text + ")";
}

}  // namespace

void append_repr(StrBuilder& out, const Value& v, int depth) {
  if (depth > 200) raise(FailureKind::kLimit, "a value nests too deeply to be written");
  switch (v.kind()) {
    case Kind::kUndefined:
      return out.append("Undefined");
    case Kind::kNone:
      return out.append("None");
    case Kind::kBool:
      return out.append(v.as_bool() ? "True" : "False");
    case Kind::kInt:
      return out.append(int_text(v.as_int()));
    case Kind::kFloat:
      return out.append(json::python_float(v.as_float()));
    case Kind::kBytes:
      out.append("b");
      return append_quoted(out, v.str(), /*bytes=*/true);
    case Kind::kString:
      return append_quoted(out, v.str(), /*bytes=*/false);
    case Kind::kList:
      return append_items(out, v.seq().items, "[", "]", depth);
    case Kind::kTuple:
      return append_items(out, v.seq().items, "(", v.seq().items.size() == 1 ? ",)" : ")", depth);
    case Kind::kDict: {
      out.append("{");
      bool first = true;
      for (const auto& [key, value] : v.dict().members) {
        if (!first) out.append(", ");
        first = false;
        append_repr(out, key, depth + 1);
        out.append(": ");
        append_repr(out, value, depth + 1);
      }
      return out.append("}");
    }
    case Kind::kRange:
      return out.append(range_text(v.get<Range>()));
    case Kind::kView: {
      out.append(v.get<View>().type);
      return append_items(out, v.get<View>().items, "([", "])", depth);
    }
    case Kind::kIterator:
      out.append("<");
      out.append(v.get<Iterator>().type);
      return out.append(" object>");
    case Kind::kNamespace: {
      out.append("<Namespace {");
      bool first = true;
      for (const auto& [key, value] : v.get<Namespace>().attributes) {
        if (!first) out.append(", ");
        first = false;
        out.append("'" + key + "': ");
        append_repr(out, value, depth + 1);
      }
      return out.append("}>");
    }
    case Kind::kCallable:
      return out.append(v.get<Callable>().repr());
  }
}

}  // namespace met::text::jinja
