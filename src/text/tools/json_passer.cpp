#include "text/tools/json_passer.h"

#include "text/tools/tool_set.h"

namespace met::text {
namespace {

bool ends_scalar(char c) { return std::string_view(" \t\r\n,]}").find(c) != std::string_view::npos; }

}  // namespace

std::size_t JsonPasser::push(std::string_view text, std::string& out, char stop) {
  std::size_t at = 0;
  for (; at < text.size() && !done(); ++at) {
    const char c = text[at];
    if (!quoted_ && stop != '\0' && c == stop) break;
    if (state_ == State::kScalar && ends_scalar(c)) {
      state_ = State::kDone;
      break;
    }
    take(c, out);
  }
  return at;
}

void JsonPasser::take(char c, std::string& out) {
  if (quoted_) {
    const bool ends = c == '"' && !escaped_;
    escaped_ = c == '\\' && !escaped_;
    if (static_cast<unsigned char>(c) < 0x20)
      append_escaped({&c, 1}, out);
    else
      out += c;
    if (!ends) return;
    quoted_ = false;
    if (state_ == State::kString) state_ = State::kDone;
    return;
  }
  out += c;
  if (c == '"') {
    quoted_ = true;
    if (state_ == State::kBefore) state_ = State::kString;
  } else if (c == '{' || c == '[') {
    ++depth_;
    state_ = State::kNested;
  } else if ((c == '}' || c == ']') && depth_ > 0) {
    if (--depth_ == 0) state_ = State::kDone;
  } else if (state_ == State::kBefore) {
    state_ = State::kScalar;
  }
}

}  // namespace met::text
