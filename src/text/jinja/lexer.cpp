#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "core/hex.h"
#include "core/utf8.h"
#include "text/jinja/unicode.h"

namespace met::text::jinja {

namespace {

/// One newline form, and no newline at the very end.
std::string normalize(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
      continue;
    }
    text += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string text) : text_(std::move(text)) {}

  std::vector<Lexeme> run() {
    while (at_ < text_.size()) root();
    push(Token::kEnd, {}, at_);
    return std::move(out_);
  }

 private:
  std::string_view rest(std::size_t at) const { return std::string_view(text_).substr(at); }
  bool looking_at(std::string_view what) const { return rest(at_).starts_with(what); }

  Position position(std::size_t offset) {
    for (; seen_ < offset && seen_ < text_.size(); ++seen_) {
      if (text_[seen_] == '\n') {
        ++line_;
        line_start_ = seen_ + 1;
      }
    }
    return {line_, static_cast<int>(offset >= line_start_ ? offset - line_start_ : 0) + 1};
  }
  void push(Token type, std::string text, std::size_t offset) {
    out_.push_back({type, std::move(text), position(offset)});
  }
  [[noreturn]] void error(std::string message, std::size_t offset) {
    seen_ = line_start_ = 0;
    line_ = 1;
    const Position p = position(offset);
    throw Failure{FailureKind::kSyntax, std::move(message), p.line, p.column};
  }

  void skip_space() {
    while (at_ < text_.size()) {
      const utf8::Decoded d = utf8::decode(rest(at_));
      if (!is_space(d.code_point)) break;
      at_ += d.length;
    }
  }

  /// Text before a tag that begins at `tag`: `sign` is its '-' or '+', `variable` for `{{`.
  void data(std::size_t tag, char sign, bool variable) {
    std::string_view text = std::string_view(text_).substr(at_, tag - at_);
    if (sign == '-') {
      std::size_t end = text.size();
      while (end > 0) {
        std::size_t begin = end - 1;
        while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
        if (!is_space(utf8::decode(text.substr(begin, end - begin)).code_point)) break;
        end = begin;
      }
      text = text.substr(0, end);
    } else if (sign != '+' && !variable) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      const bool starts_line = line > 0 || line_starting_;
      if (starts_line && text.find_first_not_of(" \t", line) == std::string_view::npos)
        text = text.substr(0, line);
    }
    if (!text.empty()) push(Token::kData, std::string(text), at_);
  }

  void root() {
    std::size_t tag = at_;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= text_.size()) {
        push(Token::kData, text_.substr(at_), at_);
        at_ = text_.size();
        return;
      }
      if (const char c = text_[tag + 1]; c == '{' || c == '%' || c == '#') break;
      ++tag;
    }
    const char what = text_[tag + 1];
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    data(tag, has_sign ? sign : '\0', what == '{');
    at_ = tag + 2 + (has_sign ? 1 : 0);
    if (what == '#') return comment(tag);
    if (what == '%' && raw(tag)) return;
    push(what == '{' ? Token::kVariableBegin : Token::kBlockBegin, {}, tag);
    expression(what == '{' ? "}}" : "%}", what == '{');
  }

  void comment(std::size_t tag) {
    const std::size_t close = text_.find("#}", at_);
    if (close == std::string::npos) error("Missing end of comment tag", tag);
    const char sign = close > at_ ? text_[close - 1] : '\0';
    at_ = close + 2;
    after_block(sign);
  }

  /// After `%}` or `#}`: `-` eats white space, `+` nothing, else one newline goes.
  void after_block(char sign) {
    const std::size_t before = at_;
    if (sign == '-')
      skip_space();
    else if (sign != '+' && at_ < text_.size() && text_[at_] == '\n')
      ++at_;
    line_starting_ = before < at_ ? text_[at_ - 1] == '\n' : false;
  }

  bool raw(std::size_t tag) {
    const std::size_t saved = at_;
    skip_space();
    if (!looking_at("raw")) return at_ = saved, false;
    at_ += 3;
    skip_space();
    const bool minus = looking_at("-%}");
    if (!minus && !looking_at("%}")) return at_ = saved, false;
    at_ += minus ? 3 : 2;
    if (minus) skip_space();
    line_starting_ = text_[at_ - 1] == '\n';
    for (std::size_t open = text_.find("{%", at_); open != std::string::npos;
         open = text_.find("{%", open + 1)) {
      const char sign = open + 2 < text_.size() ? text_[open + 2] : '\0';
      const std::size_t body = at_;
      at_ = open + 2 + (sign == '-' || sign == '+' ? 1 : 0);
      skip_space();
      if (looking_at("endraw")) {
        at_ += 6;
        skip_space();
        char end_sign = '\0';
        if (looking_at("-%}") || looking_at("+%}")) end_sign = text_[at_++];
        if (looking_at("%}")) {
          const std::size_t end = at_ + 2;
          at_ = body;
          data(open, sign, false);
          at_ = end;
          after_block(end_sign);
          return true;
        }
      }
      at_ = body;
    }
    error("Missing end of raw directive", tag);
  }

  void expression(std::string_view close, bool variable) {
    std::vector<char> open;
    const std::size_t begin = at_;
    while (true) {
      skip_space();
      if (at_ >= text_.size()) {
        error(std::string("unexpected end of template, expected 'end of ") +
                  (variable ? "print statement" : "statement block") + "'.",
              begin);
      }
      if (open.empty()) {
        char sign = '\0';
        const bool minus = rest(at_).substr(1).starts_with(close) && text_[at_] == '-';
        const bool plus = !variable && rest(at_).substr(1).starts_with(close) && text_[at_] == '+';
        if (minus || plus) sign = text_[at_];
        if (sign != '\0' || looking_at(close)) {
          push(variable ? Token::kVariableEnd : Token::kBlockEnd, {}, at_);
          at_ += close.size() + (sign != '\0' ? 1 : 0);
          if (variable) {
            if (sign == '-') skip_space();
            line_starting_ = text_[at_ - 1] == '\n';
          } else {
            after_block(sign);
          }
          return;
        }
      }
      token(open);
    }
  }

  void token(std::vector<char>& open) {
    const char c = text_[at_];
    const std::size_t begin = at_;
    if (is_name_start(c)) {
      while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit_char(text_[at_]))) ++at_;
      return push(Token::kName, text_.substr(begin, at_ - begin), begin);
    }
    if (is_digit_char(c)) return number();
    if (c == '\'' || c == '"') return string(c);
    for (const std::string_view op : {"//", "**", "==", "!=", ">=", "<="}) {
      if (!looking_at(op)) continue;
      at_ += 2;
      return push(Token::kOperator, std::string(op), begin);
    }
    if (!std::string_view("+-/*%~[](){}><=.:|,;").contains(c))
      error(std::string("unexpected char '") + c + "'", at_);
    if (c == '(' || c == '[' || c == '{') {
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) error(std::string("unexpected '") + c + "'", at_);
      if (open.back() != c) error(std::string("unexpected '") + c + "', expected '" + open.back() + "'", at_);
      open.pop_back();
    }
    ++at_;
    push(Token::kOperator, std::string(1, c), begin);
  }

  std::size_t digits(std::size_t at) const {
    while (at < text_.size() && (is_digit_char(text_[at]) ||
                                 (text_[at] == '_' && at + 1 < text_.size() && is_digit_char(text_[at + 1]))))
      ++at;
    return at;
  }

  void number() {
    const std::size_t begin = at_;
    const auto is = [&](std::size_t at, std::string_view any) {
      return at < text_.size() && any.contains(text_[at]);
    };
    const bool after_dot = begin > 0 && text_[begin - 1] == '.';
    Token type = Token::kInteger;
    if (text_[at_] == '0' && is(at_ + 1, "xXoObB")) {
      at_ += 2;
      while (is(at_, "0123456789abcdefABCDEF_")) ++at_;
    } else {
      at_ = digits(at_);
      if (!after_dot && is(at_, ".") && is(at_ + 1, "0123456789")) {
        at_ = digits(at_ + 1);
        type = Token::kFloat;
      }
      const std::size_t exponent = at_ + 1 + (is(at_ + 1, "+-") ? 1 : 0);
      if (!after_dot && is(at_, "eE") && is(exponent, "0123456789")) {
        at_ = digits(exponent);
        type = Token::kFloat;
      }
    }
    std::string text = text_.substr(begin, at_ - begin);
    std::erase(text, '_');
    push(type, std::move(text), begin);
  }

  void string(char quote) {
    const std::size_t begin = at_++;
    std::string value;
    while (true) {
      if (at_ >= text_.size()) error("the string is not closed", begin);
      const char c = text_[at_++];
      if (c == quote) break;
      if (c == '\\')
        escape(value, begin);
      else
        value += c;
    }
    push(Token::kString, std::move(value), begin);
  }

  void escape(std::string& value, std::size_t begin) {
    if (at_ >= text_.size()) error("the string is not closed", begin);
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "abfnrtv\\'\"";
    constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
    if (const auto i = kFrom.find(c); i != std::string_view::npos) return void(value += kTo[i]);
    if (c == '\n') return;
    if (c >= '0' && c <= '7') {
      char32_t point = static_cast<char32_t>(c - '0');
      for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i)
        point = point * 8 + static_cast<char32_t>(text_[at_++] - '0');
      return utf8::append(point, value);
    }
    const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (size == 0) {
      value += '\\';
      value += c;
      return;
    }
    char32_t point = hex(size, begin);
    if (point >= 0xD800 && point < 0xDC00 && looking_at("\\u")) {  // a pair of surrogates is one code point
      at_ += 2;
      const char32_t low = hex(4, begin);
      point = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((point - 0xD800) << 10U) + (low - 0xDC00) : 0xFFFD;
    }
    if (point > 0x10FFFF) error("a \\U escape is out of range", begin);
    utf8::append(point >= 0xD800 && point < 0xE000 ? utf8::kReplacement : point, value);
  }

  char32_t hex(std::size_t size, std::size_t begin) {
    char32_t point = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const int digit = at_ < text_.size() ? met::hex::value(static_cast<unsigned char>(text_[at_])) : -1;
      if (digit < 0) error("a truncated escape in a string", begin);
      point = point * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    return point;
  }

  std::string text_;
  std::size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<Lexeme> out_;
  std::size_t seen_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<Lexeme> tokenize(std::string_view source) { return Lexer(normalize(source)).run(); }

}  // namespace met::text::jinja
