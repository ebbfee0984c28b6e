#include "text/tools/xml_calls.h"

#include <array>
#include <utility>

#include "core/json.h"
#include "text/tools/formats.h"

namespace met::text {
namespace {

constexpr std::size_t kNullBytesMax = 32;  // "null" with blanks around it

std::string_view without_break(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

XmlCalls::XmlCalls(XmlDialect dialect, std::shared_ptr<const ToolSet> tools)
    : dialect_(std::move(dialect)), tools_(std::move(tools)) {
  for (const XmlDialect::Section& section : dialect_.sections) openers_.push_back(section.open);
  if (dialect_.bare_calls) openers_.push_back(dialect_.call_open);
}

bool XmlCalls::step(AnswerSink& out) {
  switch (state_) {
    case State::kText:
      return text(out);
    case State::kSection:
      return section(out);
    case State::kName:
      return dialect_.call_open.empty() ? bare_name(out) : call_name(out);
    case State::kCall:
      return in_call(out);
    case State::kKey:
      return key(out);
    case State::kBeforeValue: {
      const std::size_t at = blanks();
      const Match open = match(dialect_.value_open, at);
      if (at == rest().size() || open == Match::kMaybe || is_tail(dialect_.value_open, at)) return false;
      if (open == Match::kYes) skip(at + dialect_.value_open.size());
      state_ = State::kValue;
      return true;
    }
    case State::kValue:
      return value(out);
  }
  return false;
}

bool XmlCalls::text(AnswerSink& out) {
  const int which = text_until(openers_, out);
  if (which < 0) return false;
  open_section(static_cast<std::size_t>(which));
  return true;
}

/// Takes the opening tag, or that of a call outside of a section.
void XmlCalls::open_section(std::size_t which) {
  const bool bare = which >= dialect_.sections.size();
  markup_ = openers_[which];
  section_close_ = dialect_.sections[bare ? 0 : which].close;
  called_ = false;
  state_ = bare || dialect_.call_open.empty() ? State::kName : State::kSection;
  skip(markup_.size());
}

/// What began like a call is text; nothing is lost.
bool XmlCalls::no_call(AnswerSink& out) {
  out.content(markup_);
  markup_.clear();
  state_ = State::kText;
  return true;
}

bool XmlCalls::section(AnswerSink& out) {
  const std::size_t at = blanks();
  const bool cut_off = (called_ && is_tail(section_close_, at)) || is_tail(dialect_.call_open, at);
  if (at == rest().size() || cut_off) return false;
  const Match open = dialect_.call_open.empty() ? Match::kNo : match(dialect_.call_open, at);
  const Match close = match(section_close_, at);
  if (open == Match::kMaybe || close == Match::kMaybe) return false;
  if (open == Match::kYes) {
    markup_ += rest().substr(0, at + dialect_.call_open.size());
    skip(at + dialect_.call_open.size());
    state_ = State::kName;
  } else if (called_) {
    if (close == Match::kYes) skip(at + section_close_.size());
    state_ = State::kText;
  } else {
    return no_call(out);
  }
  return true;
}

XmlCalls::Tag XmlCalls::attributes() const {
  constexpr std::size_t kNone = std::string_view::npos;
  const std::string_view text = rest();
  Tag tag;
  std::size_t at = 0;
  for (;;) {
    at += blanks(at);
    if (at > kNameBytesMax) return {.bytes = kNone};
    if (at == text.size()) return {};
    if (text[at] == '>') break;
    const std::size_t equals = text.find_first_of("=><\"'", at);
    if (equals == kNone) return text.size() - at > kNameBytesMax ? Tag{.bytes = kNone} : Tag{};
    if (text[equals] != '=' || equals - at > kNameBytesMax) return {.bytes = kNone};
    const std::string_view attribute = trim_blanks(text.substr(at, equals - at));
    if (equals + 1 == text.size()) return {};
    const char quote = text[equals + 1];
    if (quote != '"' && quote != '\'') return {.bytes = kNone};
    const std::size_t end = text.find(quote, equals + 2);
    if (end == kNone) return text.size() - equals > kNameBytesMax ? Tag{.bytes = kNone} : Tag{};
    if (end - equals > kNameBytesMax) return {.bytes = kNone};
    const std::string_view value = text.substr(equals + 2, end - equals - 2);
    if (attribute == "name") tag.name = trim_blanks(value);
    if (attribute == "string") tag.string = value;
    at = end + 1;
  }
  tag.bytes = tag.name.empty() ? kNone : at + 1;
  return tag;
}

bool XmlCalls::call_name(AnswerSink& out) {
  if (dialect_.attributes) {
    const Tag tag = attributes();
    if (tag.bytes == 0) return false;
    if (tag.bytes == std::string_view::npos) return no_call(out);
    skip(tag.bytes);
    begin(tag.name, out);
    return true;
  }
  const std::size_t end = rest().find_first_of(">\n<");
  if (end == std::string_view::npos && rest().size() <= kNameBytesMax) return false;
  const std::string_view name = end == std::string_view::npos ? "" : trim_blanks(rest().substr(0, end));
  if (name.empty() || rest()[end] == '<' || end > kNameBytesMax) return no_call(out);
  const std::string copy(name);
  skip(end + 1);
  begin(copy, out);
  return true;
}

/// The name follows the section's tag and ends with a line or before the next tag.
bool XmlCalls::bare_name(AnswerSink& out) {
  const std::size_t at = blanks();
  const std::string_view text = rest().substr(at);
  std::size_t end = 0;
  while (end < text.size() && is_name_byte(text[end])) ++end;
  if (end > kNameBytesMax) return no_call(out);
  if (end == text.size()) return false;
  const std::size_t after = at + end + blanks(at + end);
  if (after == rest().size()) return false;
  const std::string name(text.substr(0, end));
  const bool line = text[end] == '\n' || text[end] == '\r';
  for (const std::string_view tag : {dialect_.param_open, section_close_}) {
    const Match here = match(tag, after);
    if (here == Match::kMaybe && !name.empty()) return false;
    if (here != Match::kYes || name.empty()) continue;
    skip(after);
    begin(name, out);
    return true;
  }
  if (name.empty() || !line || tools_->find(name) == nullptr) return no_call(out);
  skip(after);
  begin(name, out);
  return true;
}

void XmlCalls::begin(std::string_view name, AnswerSink& out) {
  name_ = name;
  params_ = 0;
  called_ = true;
  markup_.clear();
  state_ = State::kCall;
  out.begin_call(name);
}

/// Between parameters. What is no tag there is dropped: no place of the call could hold it.
bool XmlCalls::in_call(AnswerSink& out) {
  skip_blanks();
  if (rest().empty()) return false;
  const std::array<std::string_view, 4> tags = {dialect_.param_open, dialect_.call_close, section_close_,
                                                dialect_.call_open};
  bool wait = false;
  int which = -1;
  for (std::size_t i = 0; i < tags.size() && which < 0; ++i) {
    if (tags[i].empty()) continue;
    const Match here = match(tags[i]);
    wait |= here == Match::kMaybe;
    if (here == Match::kYes) which = static_cast<int>(i);
  }
  for (std::size_t i = 0; i < dialect_.sections.size(); ++i) {
    const Match here = which < 0 ? match(openers_[i]) : Match::kNo;
    wait |= here == Match::kMaybe;
    if (here != Match::kYes) continue;
    end_call(out);
    open_section(i);
    return true;
  }
  if (which < 0 && wait) return false;
  if (which < 0) {
    skip(1);
    return true;
  }
  skip(tags[static_cast<std::size_t>(which)].size());
  if (which == 0) {
    state_ = State::kKey;
    return true;
  }
  end_call(out);
  state_ = which == 1 ? State::kSection : which == 3 ? State::kName : State::kText;
  return true;
}

bool XmlCalls::key(AnswerSink& out) {
  if (dialect_.attributes) {
    const Tag tag = attributes();
    if (tag.bytes == 0) return false;
    if (tag.bytes == std::string_view::npos) {
      state_ = State::kCall;
      return true;
    }
    skip(tag.bytes);
    raw_json_ = dialect_.typed && tag.string == "false";
    const bool text = dialect_.typed && tag.string == "true";
    begin_value(tag.name, text ? JsonTypes(JsonTypes::kString) : tools_->types(name_, tag.name), out);
    return true;
  }
  const std::size_t end = rest().find(dialect_.key_end);
  if (end == std::string_view::npos) {
    if (rest().size() <= kNameBytesMax + dialect_.key_end.size()) return false;
    state_ = State::kCall;
    return true;
  }
  if (end > kNameBytesMax) {
    state_ = State::kCall;
    return true;
  }
  const std::string key(trim_blanks(rest().substr(0, end)));
  skip(end + dialect_.key_end.size());
  begin_value(key, tools_->types(name_, key), out);
  return true;
}

void XmlCalls::begin_value(std::string_view key, JsonTypes types, AnswerSink& out) {
  std::string text = params_++ == 0 ? "{\"" : ", \"";
  append_escaped(key, text);
  out.arguments(text + "\": ");
  types_ = types;
  streams_ = types.is_text() && !types.has(JsonTypes::kNull) && !raw_json_;
  if (streams_) out.arguments("\"");
  at_start_ = dialect_.line_breaks;
  held_.clear();
  value_.clear();
  state_ = dialect_.value_open.empty() ? State::kValue : State::kBeforeValue;
}

void XmlCalls::value_bytes(std::string_view bytes, AnswerSink& out) {
  if (bytes.empty()) return;
  if (!streams_) {
    value_ += bytes;
    const bool text = types_.is_text() && !raw_json_ && value_.size() > kNullBytesMax;
    if (!text) return;
    streams_ = true;  // too long for a null
    out.arguments("\"");
    const std::string all = std::exchange(value_, {});
    return value_bytes(all, out);
  }
  held_ += bytes;
  std::string_view now = held_;
  if (at_start_) {
    if (now == "\r") return;
    if (now.starts_with("\r\n"))
      now.remove_prefix(2);
    else if (now.starts_with('\n'))
      now.remove_prefix(1);
    at_start_ = false;
  }
  const std::string_view sure = dialect_.line_breaks ? without_break(now) : now;
  std::string escaped;
  append_escaped(sure, escaped);
  out.arguments(escaped);
  held_ = std::string(now.substr(sure.size()));
}

bool XmlCalls::value(AnswerSink& out) {
  const std::array<std::string_view, 2> ends = {dialect_.param_close, dialect_.param_open};
  if (ended())  // a closing tag that was cut is no part of the value
    for (std::size_t at = 0; at < rest().size(); ++at)
      if (is_tail(ends[0], at)) {
        const std::size_t all = rest().size();
        value_bytes(rest().substr(0, at), out);
        skip(all);
        return false;
      }
  const Found found = find(std::span(ends).first(dialect_.value_open.empty() ? 2 : 1));
  value_bytes(rest().substr(0, found.at), out);
  skip(found.at);
  if (found.which < 0) return false;
  if (found.which == 0) skip(ends[0].size());
  end_value(out);
  state_ = State::kCall;
  return true;
}

void XmlCalls::end_value(AnswerSink& out) {
  if (streams_) return out.arguments("\"");  // the line break held is markup
  std::string_view value = value_;
  if (dialect_.line_breaks) {
    if (value.starts_with("\r\n"))
      value.remove_prefix(2);
    else if (value.starts_with('\n'))
      value.remove_prefix(1);
    value = without_break(value);
  }
  const bool json = raw_json_ && json::parse(value);
  out.arguments(json ? std::string(trim_blanks(value)) : json_of(value, types_));
}

void XmlCalls::end_call(AnswerSink& out) {
  out.arguments(params_ == 0 ? "{}" : "}");
  out.end_call(/*complete=*/true);
}

void XmlCalls::close(bool cut, AnswerSink& out) {
  switch (state_) {
    case State::kText:
      return;
    case State::kSection:
    case State::kName:
      if (const std::string name(trim_blanks(rest())); state_ == State::kName && dialect_.call_open.empty() &&
                                                       (!cut || rest().contains('\n')) &&
                                                       tools_->find(name)) {
        begin(name, out);
        return close(cut, out);
      }
      if (!cut && !called_) out.content(markup_ + std::string(rest()));
      return;
    case State::kCall:
      if (params_ > 0 || !cut) return end_call(out);
      return out.end_call(/*complete=*/false);
    case State::kKey:
    case State::kBeforeValue:
    case State::kValue:
      return out.end_call(/*complete=*/false);
  }
}

std::unique_ptr<ToolParser> make_qwen3_xml(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<XmlCalls>(XmlDialect{.sections = {{"<tool_call>", "</tool_call>"}},
                                               .call_open = "<function=",
                                               .call_close = "</function>",
                                               .param_open = "<parameter=",
                                               .param_close = "</parameter>",
                                               .bare_calls = true,
                                               .line_breaks = true},
                                    std::move(tools));
}

std::unique_ptr<ToolParser> make_minimax(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<XmlCalls>(XmlDialect{.sections = {{"<minimax:tool_call>", "</minimax:tool_call>"}},
                                               .call_open = "<invoke ",
                                               .call_close = "</invoke>",
                                               .param_open = "<parameter ",
                                               .param_close = "</parameter>",
                                               .attributes = true},
                                    std::move(tools));
}

std::unique_ptr<ToolParser> make_arg_pairs(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<XmlCalls>(XmlDialect{.sections = {{"<tool_call>", "</tool_call>"}},
                                               .param_open = "<arg_key>",
                                               .param_close = "</arg_value>",
                                               .key_end = "</arg_key>",
                                               .value_open = "<arg_value>"},
                                    std::move(tools));
}

std::unique_ptr<ToolParser> make_dsml(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<XmlCalls>(
      XmlDialect{.sections = {{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"},
                              {"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"}},
                 .call_open = "<｜DSML｜invoke ",
                 .call_close = "</｜DSML｜invoke>",
                 .param_open = "<｜DSML｜parameter ",
                 .param_close = "</｜DSML｜parameter>",
                 .attributes = true,
                 .typed = true},
      std::move(tools));
}

}  // namespace met::text
