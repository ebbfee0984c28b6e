#include "text/tools/json_call.h"

#include <algorithm>

#include "core/json.h"

namespace met::text {
namespace {

bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }

/// The string that a JSON string literal means; invalid escapes stay as they are.
std::string unquoted(std::string_view literal) {
  const auto parsed = json::parse(literal);
  if (parsed && parsed->is_string()) return parsed->as_string();
  return std::string(literal.substr(1, literal.size() - 2));
}

bool of_a_call(std::string_view key) {
  constexpr std::string_view kKeys[] = {"name", "arguments", "parameters", "type", "function", "id", "index"};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

/// How many bytes an escape has: 0 while that is not known.
std::size_t escape_bytes(std::string_view escape) {
  if (escape.size() < 2) return 0;
  if (escape[1] != 'u') return 2;
  if (escape.size() < 6) return 0;
  const bool high = (escape[2] == 'd' || escape[2] == 'D') && std::string_view("89abAB").contains(escape[3]);
  if (!high) return 6;
  if (escape.size() > 6 && escape[6] != '\\') return 6;
  if (escape.size() > 7 && escape[7] != 'u') return 6;
  return escape.size() < 12 ? 0 : 12;
}

}  // namespace

std::size_t JsonCall::push(std::string_view text, bool ended, AnswerSink& out) {
  const auto in_value = [&] { return state_ == State::kSkip || state_ == State::kArguments; };
  std::size_t at = 0;
  for (; at < text.size() && status_ == Status::kMore; ++at) {
    const char c = text[at];
    const bool quoted = state_ == State::kKey || state_ == State::kName || state_ == State::kText ||
                        (in_value() && passer_.in_string());
    if (!rules_.stop.empty() && !quoted && c == rules_.stop[0]) {
      const std::string_view tail = text.substr(at);
      if (tail.starts_with(rules_.stop)) {
        fail(out);
        break;
      }
      if (!ended && rules_.stop.starts_with(tail)) break;
    }
    if (!begun_) raw_ += c;
    if (in_value()) {
      std::string passed;
      if (passer_.push({&c, 1}, passed) == 1 && state_ == State::kArguments) argument_bytes(passed, out);
      if (!passer_.done()) continue;
      if (state_ == State::kArguments) end_arguments(out);
      state_ = State::kCommaOrEnd;
      if (!passed.empty()) continue;  // else `c` follows a scalar
    }
    take(c, out);
  }
  return at;
}

void JsonCall::take(char c, AnswerSink& out) {
  switch (state_) {
    case State::kKey:
    case State::kName: {
      text_ += c;
      const bool ends = c == '"' && !escaped_;
      escaped_ = c == '\\' && !escaped_;
      if (!ends) return;
      if (state_ == State::kKey) {
        key_ = unquoted(text_);
        state_ = State::kColon;
        if (!begun_ && !rules_.name_suffices && !of_a_call(key_)) status_ = Status::kNoCall;
      } else {
        name_ = unquoted(text_);
        state_ = State::kCommaOrEnd;
        try_begin(out);
      }
      return;
    }
    case State::kText:
      return take_text(c, out);
    default:
      break;
  }
  if (is_blank(c)) return;
  switch (state_) {
    case State::kStart:
      state_ = State::kKeyOrEnd;
      return c == '{' ? void() : fail(out);
    case State::kKeyOrEnd:
      if (c == '}') return close_object(out);
      if (c == ',') return;
      if (c != '"') return fail(out);
      state_ = State::kKey;
      text_ = c;
      escaped_ = false;
      return;
    case State::kColon:
      state_ = State::kValue;
      return c == ':' ? void() : fail(out);
    case State::kValue:
      return begin_value(c, out);
    case State::kCommaOrEnd:
      if (c == '}') return close_object(out);
      state_ = State::kKeyOrEnd;
      return c == ',' ? void() : fail(out);
    default:
      return;
  }
}

void JsonCall::begin_value(char c, AnswerSink& out) {
  if (c == '}' || c == ']' || c == ',') return fail(out);
  const bool arguments = (key_ == "arguments" || key_ == "parameters") && !has_arguments_;
  if (key_ == "name" && c == '"' && name_.empty()) {
    state_ = State::kName;
    text_ = c;
    escaped_ = false;
    return;
  }
  if (key_ == "function" && c == '{' && !nested_) {
    nested_ = true;
    state_ = State::kKeyOrEnd;
    return;
  }
  if (arguments) {
    has_arguments_ = true;
    try_begin(out);
    if (c == '"') {
      state_ = State::kText;
      return;
    }
    scalar_ = c != '{' && c != '[';
  }
  state_ = arguments ? State::kArguments : State::kSkip;
  passer_ = {};
  std::string passed;
  passer_.take(c, passed);
  if (arguments) argument_bytes(passed, out);
}

void JsonCall::argument_bytes(std::string_view bytes, AnswerSink& out) {
  given_ |= !bytes.empty();
  if (begun_ && !scalar_)
    out.arguments(bytes);
  else
    arguments_ += bytes;
}

/// Arguments that are JSON text in a string: their bytes, unescaped as soon as an escape is whole.
void JsonCall::take_text(char c, AnswerSink& out) {
  if (text_escape_.empty() && c == '"') {
    state_ = State::kCommaOrEnd;
    return end_arguments(out);
  }
  if (text_escape_.empty() && c != '\\') return argument_bytes({&c, 1}, out);
  text_escape_ += c;
  const bool broken = text_escape_.size() > 2 && c == '"';  // the string ends inside an escape
  const std::size_t size = broken ? text_escape_.size() - 1 : escape_bytes(text_escape_);
  if (size == 0) return;
  const std::string escape = text_escape_.substr(0, size);
  const std::string after = text_escape_.substr(size);
  text_escape_.clear();
  argument_bytes(unquoted("\"" + escape + "\""), out);
  for (const char next : after) take_text(next, out);
}

void JsonCall::end_arguments(AnswerSink& out) {
  arguments_done_ = true;
  if (given_ && !scalar_) return;
  if (!given_ || arguments_ == "null") arguments_ = "{}";
  scalar_ = false;
  if (begun_) out.arguments(arguments_);
}

void JsonCall::try_begin(AnswerSink& out) {
  if (begun_ || name_.empty()) return;
  const bool known = rules_.tools != nullptr && rules_.tools->find(name_) != nullptr;
  if (!rules_.name_suffices && !known && !has_arguments_) return;
  begun_ = true;
  raw_.clear();
  out.begin_call(name_);
  if (!scalar_) out.arguments(arguments_);
}

void JsonCall::close_object(AnswerSink& out) {
  if (nested_) {
    nested_ = false;
    state_ = State::kCommaOrEnd;
    return;
  }
  if (!begun_) {
    status_ = Status::kNoCall;
    return;
  }
  if (!has_arguments_) out.arguments("{}");
  out.end_call(/*complete=*/true);
  status_ = Status::kDone;
}

void JsonCall::fail(AnswerSink& out) {
  status_ = begun_ ? Status::kBroken : Status::kNoCall;
  if (!begun_) return;
  if (!has_arguments_) out.arguments("{}");
  out.end_call(arguments_done_ || !has_arguments_);
}

bool JsonCall::finish(bool cut, AnswerSink& out) {
  if (!begun_) return false;
  if (state_ == State::kArguments && scalar_ && passer_.ends_here() && !cut) end_arguments(out);
  const bool bare = !has_arguments_ && !cut;
  if (bare) out.arguments("{}");
  out.end_call(arguments_done_ || bare);
  return true;
}

}  // namespace met::text
