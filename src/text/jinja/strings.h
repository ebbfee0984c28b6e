// Text with origin marks: building, slicing and Python's string operations. Every function keeps track of
// which bytes came from user input.
#pragma once

#include "text/jinja/value.h"

namespace met::text::jinja {

/// Appends text and marks; `take` hands the value over.
class StrBuilder {
 public:
  explicit StrBuilder(const Heap& heap) : heap_(heap) {}
  ~StrBuilder();
  StrBuilder(const StrBuilder&) = delete;
  StrBuilder& operator=(const StrBuilder&) = delete;
  void append(std::string_view text, bool untrusted = false);
  void append(const Str& s) { append(s, 0, s.text.size()); }
  void append(const Str& s, std::size_t begin, std::size_t end);
  void append_code_point(char32_t point, bool untrusted);
  std::size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }
  const std::vector<ByteRange>& untrusted() const { return untrusted_; }
  /// `markup`: the text counts as safe.
  Value take(bool markup = false);

 private:
  void mark(std::size_t begin, std::size_t end);
  void charge();
  const Heap& heap_;
  std::string text_;
  std::vector<ByteRange> untrusted_;
  std::size_t charged_ = 0;
};

/// The text with the five characters of HTML escaped, unless it is markup already; the result is markup.
Value escape_html(const Heap& heap, const Str& s);
/// Concatenation; if one part is markup the others are escaped and the result is markup.
Value join_markup(const Heap& heap, const std::vector<Value>& parts);

bool any_untrusted(const Str& s, std::size_t begin, std::size_t end);
Value substring(const Heap& heap, const Str& s, std::size_t begin, std::size_t end);
/// str(v): strings as they are, the rest as text whose marks follow the strings inside.
Value to_string(const Heap& heap, const Value& v);
void append_string(StrBuilder& out, const Value& v);
void append_repr(StrBuilder& out, const Value& v, int depth = 0);

/// Code points of a string; for ASCII the number of bytes.
std::size_t code_points(const Str& s);
/// Byte offset of a code point index (clamped to the end).
std::size_t byte_offset(const Str& s, std::size_t index);
/// Each code point as a string of its own.
std::vector<Value> characters(const Heap& heap, const Str& s);

bool is_space(char32_t point);
enum class Side { kLeft, kRight, kBoth };
/// Without `chars`: Unicode white space.
Value strip(const Heap& heap, const Str& s, const Str* chars, Side side);
Value replace(const Heap& heap, const Str& s, const Str& from, const Str& to, Int count);
std::vector<Value> split(const Heap& heap, const Str& s, const Str* separator, Int count, bool from_right);
std::vector<Value> split_lines(const Heap& heap, const Str& s, bool keep_ends);
enum class Case { kUpper, kLower, kTitle, kCapitalize, kSwap, kJinjaTitle };
Value change_case(const Heap& heap, const Str& s, Case how);
enum class Class { kAlpha, kDigit, kDecimal, kAlnum, kUpper, kLower, kSpace, kTitle, kAscii };
bool is_class(const Str& s, Class which);
/// `fill` to `width` code points; negative `side` puts the text left, 0 centres, positive right.
Value pad(const Heap& heap, const Str& s, Int width, std::string_view fill, int side);

/// printf style: '%s %d' % args.
Value percent_format(const Heap& heap, const Str& format, const Value& arguments);
/// '{} {x:>5}'.format(...).
Value brace_format(Interpreter& run, const Str& format, const Arguments& arguments);
/// Python's format(value, spec).
void format_spec(StrBuilder& out, const Value& v, std::string_view spec);

}  // namespace met::text::jinja
