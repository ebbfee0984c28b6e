#include "tests/text/answer_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "core/concat.h"
#include "text/reasoning/reasoning.h"
#include "text/tools/tool_set.h"

namespace met::testing {
namespace {

using text::Piece;

std::string collapsed(std::string_view text) {
  std::string out;
  for (const char c : text::trim_blanks(text)) {
    const bool blank = text::kBlanks.contains(c);
    if (blank && out.ends_with(' ')) continue;
    out += blank ? ' ' : c;
  }
  return out;
}

/// Objects that `text`, a beginning of a JSON object, may become.
std::vector<json::Value> completions(const std::string& text) {
  constexpr std::string_view kTails[] = {"",           "\"",  "\"\"", "0",    "null", "\":null", ":null",
                                         "\"a\":null", "rue", "ue",   "e",    "alse", "lse",     "se",
                                         "ull",        "ll",  "l",    "\\\"", "0\"",  "00\"",    "000\""};
  if (text.empty()) return {json::Value(json::Object{})};
  std::string closing;
  bool quoted = false;
  bool escaped = false;
  for (const char c : text) {
    const bool ends = quoted && c == '"' && !escaped;
    escaped = quoted && c == '\\' && !escaped;
    if (c == '"' && (ends || !quoted)) quoted = !quoted;
    if (quoted || c == '"') continue;
    if (c == '{' || c == '[') closing.insert(closing.begin(), c == '{' ? '}' : ']');
    if ((c == '}' || c == ']') && !closing.empty()) closing.erase(0, 1);
  }
  std::vector<json::Value> out;
  for (const std::string_view tail : kTails) {
    auto parsed = json::parse(concat(text, tail, closing));
    if (parsed && parsed->is_object()) out.push_back(std::move(*parsed));
  }
  return out;
}

/// `part` has no value that `whole` does not go on from.
bool extends(const json::Value& part, const json::Value& whole) {
  if (part.is_null()) return true;
  if (part.is_string() && whole.is_string()) return whole.as_string().starts_with(part.as_string());
  if (part.is_number() && whole.is_number())
    return json::write(whole).starts_with(json::write(part)) || part.as_number() == 0;
  if (part.is_object() && whole.is_object())
    return std::ranges::all_of(part.as_object(), [&](const auto& member) {
      const json::Value* other = whole.find(member.first);
      return (other == nullptr && member.second.is_null()) ||
             (other != nullptr && extends(member.second, *other));
    });
  if (part.is_array() && whole.is_array()) {
    for (std::size_t i = 0; i < part.as_array().size(); ++i)
      if (i >= whole.as_array().size() || !extends(part.as_array()[i], whole.as_array()[i])) return false;
    return true;
  }
  return part == whole;
}

bool same_json(const json::Value& a, const json::Value& b) {
  if (a.is_number() && b.is_number()) return a.as_number() == b.as_number();
  if (a.is_array() && b.is_array()) return std::ranges::equal(a.as_array(), b.as_array(), same_json);
  if (a.is_object() && b.is_object()) {
    if (a.as_object().size() != b.as_object().size()) return false;
    return std::ranges::all_of(a.as_object(), [&](const auto& member) {
      const json::Value* other = b.find(member.first);
      return other != nullptr && same_json(member.second, *other);
    });
  }
  return a == b;
}

std::string call_difference(const json::Value& want, const json::Value& expect, const ParsedCall& call) {
  if (call.name != want.find("name")->as_string()) return "calls " + call.name;
  if (const json::Value* raw = want.find("arguments_text"); raw != nullptr)
    return call.arguments == raw->as_string() ? "" : "passes the arguments " + call.arguments;
  const json::Value* complete = want.find("complete");
  const json::Value* arguments = want.find("arguments");
  if (complete != nullptr && !complete->as_bool() && arguments == nullptr) {
    const json::Value& whole = *want.find("arguments_extend");
    const bool fits = std::ranges::any_of(completions(call.arguments),
                                          [&](const json::Value& part) { return extends(part, whole); });
    return fits ? "" : "gives a wrong part of the arguments: " + call.arguments;
  }
  const auto parsed = json::parse(call.arguments);
  if (!parsed) return "gives arguments that are no JSON: " + call.arguments;
  if (!call.complete) return "does not call the arguments complete: " + call.arguments;
  const auto fits = [&](const json::Value& value) { return same_json(*parsed, value); };
  if (fits(*arguments)) return "";
  const json::Value* any = expect.find("args_any_of");
  if (any != nullptr && std::ranges::any_of(any->as_array(), fits)) return "";
  return "gives the arguments " + call.arguments;
}

bool text_fits(const json::Value& expect, const char* key, const char* any_key, std::string_view got) {
  const auto fits = [&](const json::Value& value) {
    return collapsed(value.is_string() ? std::string_view(value.as_string()) : "") == collapsed(got);
  };
  const json::Value* want = expect.find(key);
  if (want == nullptr || fits(*want)) return true;
  const json::Value* any = expect.find(any_key);
  return any != nullptr && std::ranges::any_of(any->as_array(), fits);
}

}  // namespace

void collect(const std::vector<Piece>& pieces, Parsed& out) {
  for (const Piece& piece : pieces) {
    switch (piece.kind) {
      case Piece::Kind::kContent:
        EXPECT_FALSE(out.in_call) << "content inside a call";
        out.content += piece.text;
        break;
      case Piece::Kind::kReasoning:
        EXPECT_FALSE(out.in_call) << "reasoning inside a call";
        out.reasoning += piece.text;
        break;
      case Piece::Kind::kCallBegin:
        EXPECT_FALSE(out.in_call) << "a call inside a call";
        EXPECT_FALSE(piece.text.empty());
        EXPECT_EQ(piece.call, static_cast<int>(out.calls.size()));
        out.calls.push_back({.name = piece.text});
        out.in_call = true;
        break;
      case Piece::Kind::kCallArguments:
        ASSERT_TRUE(out.in_call) << "arguments outside of a call";
        out.calls.back().arguments += piece.text;
        break;
      case Piece::Kind::kCallEnd:
        ASSERT_TRUE(out.in_call) << "an end without a call";
        out.calls.back().complete = piece.complete;
        out.in_call = false;
        break;
    }
  }
}

Parsed parse(const text::AnswerFormat& format, const std::vector<std::string>& texts, bool cut) {
  text::AnswerParser parser(format);
  Parsed out;
  for (const std::string& some : texts) {
    parser.text(some);
    collect(parser.take(), out);
  }
  parser.finish(cut);
  collect(parser.take(), out);
  EXPECT_FALSE(out.in_call) << "a call without end";
  return out;
}

Parsed parse_tokens(const text::AnswerFormat& format, std::string_view text, bool all_markers, bool cut) {
  const auto markers = text::reasoning_markers(format.reasoning);
  text::AnswerParser parser(format, std::vector<bool>(markers.size(), true));
  Parsed out;
  while (!text.empty()) {
    constexpr std::string_view kOpen = "⟨special:";
    constexpr std::string_view kClose = "⟩";
    const bool marked = text.starts_with(kOpen);
    const std::string_view rest = marked ? text.substr(kOpen.size()) : text;
    std::size_t taken = 1;
    const auto* found =
        std::ranges::find_if(std::to_address(markers.begin()), std::to_address(markers.end()),
                             [&](std::string_view marker) { return rest.starts_with(marker); });
    if (found != std::to_address(markers.end()) && (marked || all_markers)) {
      parser.marker(static_cast<std::size_t>(found - markers.data()));
      taken = found->size() + (marked ? kOpen.size() + kClose.size() : 0);
    } else {
      parser.text(text.substr(0, 1));
    }
    text.remove_prefix(taken);
    collect(parser.take(), out);
  }
  parser.finish(cut);
  collect(parser.take(), out);
  return out;
}

Parsed parse_at_every_cut(const text::AnswerFormat& format, std::string_view text, bool cut) {
  Parsed whole = parse(format, {std::string(text)}, cut);
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  EXPECT_EQ(parse(format, bytes, cut) == whole, true) << "byte by byte: " << text;
  for (std::size_t at = 1; at < text.size(); ++at) {
    const Parsed split = parse(format, {std::string(text.substr(0, at)), std::string(text.substr(at))}, cut);
    EXPECT_TRUE(split == whole) << "cut at " << at << ": " << text;
    if (!(split == whole)) break;
  }
  return whole;
}

std::shared_ptr<const text::ToolSet> tool_set(const json::Value& tools) {
  std::vector<text::Tool> all;
  for (const json::Value& tool : tools.as_array()) {
    const json::Value* function = tool.find("function");
    all.push_back({.name = function->find("name")->as_string(),
                   .parameters = *function->find("parameters"),
                   .definition = tool});
  }
  return std::make_shared<const text::ToolSet>(std::move(all));
}

std::string difference(const json::Value& expect, const Parsed& parsed) {
  const json::Array& calls = expect.find("calls")->as_array();
  const bool raw_ok = expect.find("allow_call_raw") != nullptr && parsed.calls.size() == 1;
  if (parsed.calls.size() != calls.size() && !raw_ok) return concat("finds ", parsed.calls.size(), " calls");
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (std::string wrong = call_difference(calls[i], expect, parsed.calls[i]); !wrong.empty()) return wrong;
  if (!text_fits(expect, "content", "content_any_of", parsed.content))
    return "gives the content " + parsed.content;
  if (!text_fits(expect, "reasoning", "reasoning_any_of", parsed.reasoning))
    return "gives the reasoning " + parsed.reasoning;
  return "";
}

}  // namespace met::testing
