#include "closure/entries.h"

#include <cctype>

namespace met::closure {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Reads words and brackets of comment-free text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// The next identifier, or the next other character that is not blank; empty at the end.
  std::string_view next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    const std::size_t begin = at_;
    if (at_ == text_.size()) return {};
    if (!is_word(text_[at_])) return text_.substr(at_++, 1);
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  /// After "(": skips to behind its match.
  void skip_bracket() {
    for (int depth = 1; depth > 0;) {
      const auto token = next();
      if (token.empty()) return;
      depth += token == "(" ? 1 : token == ")" ? -1 : 0;
    }
  }

  std::size_t position() const { return at_; }
  void seek(std::size_t at) { at_ = at; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// The name before the parameter list of a function whose qualifiers have just begun.
std::string_view function_name(Scanner& scan) {
  std::string_view last;
  for (;;) {
    const auto token = scan.next();
    if (token.empty() || token == ";" || token == "{") return {};
    if (token != "(") {
      if (is_word(token.front())) last = token;
    } else if (last == "__launch_bounds__" || last == "__cluster_dims__" || last == "__attribute__") {
      scan.skip_bracket();
    } else {
      return last;
    }
  }
}

}  // namespace

std::string without_comments(std::string_view text) {
  std::string out(text);
  enum { kCode, kLine, kBlock, kString, kChar } state = kCode;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (state == kCode) {
      const bool digit_separator = c == '\'' && i > 0 && is_word(text[i - 1]);
      if (c == '/' && next == '/') state = kLine;
      if (c == '/' && next == '*') state = kBlock;
      if (c == '"') state = kString;
      if (c == '\'' && !digit_separator) state = kChar;
      if (state == kLine || state == kBlock) out[i] = out[i + 1] = ' ', ++i;
      continue;
    }
    const bool in_literal = state == kString || state == kChar;
    const bool ends = (state == kLine && c == '\n') || (state == kBlock && c == '*' && next == '/') ||
                      (state == kString && c == '"') || (state == kChar && c == '\'');
    if (c != '\n' && !(in_literal && ends)) out[i] = ' ';
    if (in_literal && c == '\\' && i + 1 < out.size()) out[++i] = ' ';
    if (!ends) continue;
    if (state == kBlock) out[++i] = ' ';
    state = kCode;
  }
  return out;
}

std::set<std::string> entry_points(std::string_view text) {
  const std::string code = without_comments(text);
  Scanner scan(code);
  std::set<std::string> out;
  for (auto token = scan.next(); !token.empty(); token = scan.next()) {
    if (token == "MET_CPU_KERNEL") {
      if (scan.next() == "(") out.emplace(scan.next());
    } else if (token == "__global__" || token == "kernel") {
      const std::size_t at = scan.position();
      const auto name = function_name(scan);
      if (name.empty())
        scan.seek(at);
      else
        out.emplace(name);
    }
  }
  return out;
}

}  // namespace met::closure
