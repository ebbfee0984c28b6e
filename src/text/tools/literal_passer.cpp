#include "text/tools/literal_passer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/utf8.h"
#include "text/machine/answer_sink.h"
#include "text/tools/tool_set.h"

namespace met::text {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kWords = {{{"true", "true"},
                                                                                  {"True", "true"},
                                                                                  {"false", "false"},
                                                                                  {"False", "false"},
                                                                                  {"null", "null"},
                                                                                  {"None", "null"}}};

constexpr std::size_t kWait = std::string_view::npos;  // a marker may begin here

bool is_blank(char c) { return kBlanks.contains(c); }

/// Hexadecimal digits that follow the letter of an escape.
std::size_t hex_digits(char letter) { return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0; }

}  // namespace

std::size_t LiteralPasser::push(std::string_view text, bool ended, std::string& out) {
  std::size_t at = 0;
  while (at < text.size() && !done() && !broken()) {
    const std::size_t taken = step(text.substr(at), ended, out);
    if (taken == kWait) break;
    at += taken;
  }
  return at;
}

std::size_t LiteralPasser::step(std::string_view text, bool ended, std::string& out) {
  const char c = text[0];
  if (state_ == State::kString) return string_bytes(text, out);
  if (state_ == State::kScalar) {
    if (!std::string_view(",]})").contains(c)) {
      word_ += c;
      return 1;
    }
    end_scalar(out);
    return 0;
  }
  if (state_ == State::kBareKey) {
    if (c != ':') {
      word_ += c;
      if (c == ',' || c == '}') state_ = State::kBroken;
      return 1;
    }
    out += '"';
    append_escaped(trim_blanks(word_), out);
    out += '"';
    state_ = State::kColon;
    return 0;
  }
  if (is_blank(c)) return 1;
  if (state_ == State::kColon) {
    state_ = c == ':' ? State::kValue : State::kBroken;
    out += ": ";
    return 1;
  }
  if (state_ == State::kAfter && c == ',') {
    state_ = open_.back() == '}' ? State::kKey : State::kValue;
    return 1;
  }
  const bool may_close = state_ != State::kValue || first_ || (!open_.empty() && open_.back() != '}');
  if (!open_.empty() && c == open_.back() && may_close) {  // a comma may stand before it
    out += c == ')' ? ']' : c;
    open_.pop_back();
    end_value();
    return 1;
  }
  if (state_ == State::kAfter) {
    state_ = State::kBroken;
    return 0;
  }
  const bool marked = !dialect_.quote.empty() && c == dialect_.quote[0];
  if (marked && !text.starts_with(dialect_.quote)) {
    if (!ended && dialect_.quote.starts_with(text)) return kWait;
    state_ = State::kBroken;
    return 0;
  }
  begun_ = true;
  const bool key = state_ == State::kKey;
  const bool member = !open_.empty() && (key || open_.back() != '}');
  if (member && !first_) out += ", ";
  first_ = false;
  if (marked || c == '"' || (c == '\'' && dialect_.single_quotes)) {
    begin_string(marked ? '\0' : c, key, out);
    return marked ? dialect_.quote.size() : 1;
  }
  word_.clear();
  if (key) {
    state_ = dialect_.bare_keys || is_json_number(std::string_view(&c, 1)) ? State::kBareKey : State::kBroken;
    return 0;
  }
  if (c == '{' || c == '[' || c == '(') {
    open_.push_back(c == '{' ? '}' : c == '[' ? ']' : ')');
    out += c == '(' ? '[' : c;
    first_ = true;
    state_ = c == '{' ? State::kKey : State::kValue;
    return 1;
  }
  state_ = State::kScalar;
  if (std::string_view(",]})").contains(c)) state_ = State::kBroken;
  return 0;
}

void LiteralPasser::begin_string(char quote, bool key, std::string& out) {
  quote_ = quote;
  is_key_ = key;
  escape_.clear();
  out += '"';
  state_ = State::kString;
}

std::size_t LiteralPasser::string_bytes(std::string_view text, std::string& out) {
  const auto ends = [&] {
    out += '"';
    if (is_key_) {
      state_ = State::kColon;
    } else {
      end_value();
    }
  };
  if (quote_ == '\0') {
    const std::size_t at = std::min(text.find(dialect_.quote[0]), text.size());
    append_escaped(text.substr(0, at), out);
    if (at > 0) return at;
    if (text.starts_with(dialect_.quote)) {
      ends();
      return dialect_.quote.size();
    }
    if (dialect_.quote.starts_with(text))
      return kWait;  // at the end of the output it is a marker that was cut
    append_escaped(text.substr(0, 1), out);
    return 1;
  }
  const char c = text[0];
  if (!escape_.empty()) {
    escape(c, out);
  } else if (c == '\\') {
    escape_ = c;
  } else if (c == quote_) {
    ends();
  } else {
    append_escaped({&c, 1}, out);
  }
  return 1;
}

/// One more byte of an escape of Python's; what is none stays as it is.
void LiteralPasser::escape(char c, std::string& out) {
  constexpr std::string_view kLetters = "nrtbf0av";
  constexpr std::string_view kMeanings{"\n\r\t\b\f\0\a\v", 8};
  escape_ += c;
  const std::size_t digits = hex_digits(escape_[1]);
  if (escape_.size() < 2 + digits) return;
  std::string meant;
  const char letter = escape_[1];
  unsigned point = 0;
  const char* const first = escape_.data() + 2;
  if (digits > 0 && std::from_chars(first, first + digits, point, 16).ptr == first + digits &&
      point < 0x110000 && (point < 0xD800 || point > 0xDFFF)) {
    utf8::append(point, meant);
  } else if (const std::size_t at = kLetters.find(letter); digits == 0 && at != std::string_view::npos) {
    meant = kMeanings[at];
  } else if (letter == '\\' || letter == '\'' || letter == '"') {
    meant = letter;
  } else if (letter != '\n') {  // a line that goes on
    meant = escape_;
  }
  escape_.clear();
  append_escaped(meant, out);
}

void LiteralPasser::end_scalar(std::string& out) {
  const std::string_view word = trim_blanks(word_);
  const auto* known = std::ranges::find(kWords, word, &std::pair<std::string_view, std::string_view>::first);
  if (known != kWords.end()) {
    out += known->second;
  } else if (is_json_number(word)) {
    out += word;
  } else {
    out += '"';
    append_escaped(word, out);
    out += '"';
  }
  end_value();
}

void LiteralPasser::end_value() {
  first_ = false;
  state_ = open_.empty() ? State::kDone : State::kAfter;
}

bool LiteralPasser::finish(std::string& out) {
  if (state_ == State::kScalar && open_.empty()) end_scalar(out);
  return done();
}

}  // namespace met::text
