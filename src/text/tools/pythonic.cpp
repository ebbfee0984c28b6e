// Pythonic: [name(key=value, …), …] with Python literals. The list is the beginning of the content (Llama), or it
// stands between <|tool_call_start|> and <|tool_call_end|> anywhere (LFM), or between <|python_start|> and
// <|python_end|> (Llama 4).
#include "text/tools/formats.h"
#include "text/tools/literal_passer.h"
#include "text/tools/scan_parser.h"

namespace met::text {
namespace {

constexpr std::string_view kOpeners[] = {"<|tool_call_start|>", "<|python_start|>"};
constexpr std::string_view kClosers[] = {"<|tool_call_end|>", "<|python_end|>"};
constexpr LiteralPasser::Dialect kDialect = {.quote = {}, .bare_keys = false, .single_quotes = true};

class Pythonic final : public ScanParser {
 public:
  explicit Pythonic(std::shared_ptr<const ToolSet> tools) : tools_(std::move(tools)) {}

 private:
  enum class State { kStart, kText, kList, kName, kKey, kValue, kAfterValue, kAfterCall, kAfterList };

  bool step(AnswerSink& out) override {
    switch (state_) {
      case State::kStart: {
        const std::size_t at = blanks();
        if (at == rest().size()) return false;
        if (rest()[at] == '[') return list(at + 1);
        state_ = State::kText;
        return true;
      }
      case State::kText: {
        const int which = text_until(kOpeners, out);
        if (which < 0) return false;
        markup_ = kOpeners[which];
        skip(markup_.size());
        state_ = State::kList;
        return true;
      }
      case State::kList: {
        const std::size_t at = blanks();
        if (at == rest().size()) return false;
        if (rest()[at] == '[') return list(at + 1);
        return no_call(out);
      }
      case State::kName:
        return read_name(out);
      case State::kKey:
        return key(out);
      case State::kValue: {
        std::string json;
        skip(value_.push(rest(), ended(), json));
        out.arguments(json);
        if (value_.broken()) return end_call(false, State::kText, out);
        if (!value_.done()) return false;
        state_ = State::kAfterValue;
        return true;
      }
      case State::kAfterValue:
        skip_blanks();
        if (rest().empty()) return false;
        if (rest()[0] == ',') {
          skip(1);
          state_ = State::kKey;
          return true;
        }
        if (rest()[0] != ')') return end_call(false, State::kText, out);
        skip(1);
        return end_call(true, State::kAfterCall, out);
      case State::kAfterCall:
        skip_blanks();
        if (rest().empty()) return false;
        state_ = rest()[0] == ',' ? State::kName : rest()[0] == ']' ? State::kAfterList : State::kText;
        if (state_ != State::kText) skip(1);
        return true;
      case State::kAfterList:
        return after_list();
    }
    return false;
  }

  bool list(std::size_t taken) {
    markup_ += rest().substr(0, taken);
    skip(taken);
    called_ = false;
    state_ = State::kName;
    return true;
  }

  bool no_call(AnswerSink& out) {
    if (!called_) out.content(markup_);
    markup_.clear();
    state_ = State::kText;
    return true;
  }

  bool read_name(AnswerSink& out) {
    const std::size_t at = rest().find('(');
    const std::string name(trim_blanks(rest().substr(0, at)));
    const bool part = name.empty() && at == std::string_view::npos && rest().size() <= kNameBytesMax;
    if (!part && (!is_name(name) || name.size() > kNameBytesMax)) return no_call(out);
    if (at == std::string_view::npos) return false;
    skip(at + 1);
    out.begin_call(name);
    called_ = true;
    params_ = 0;
    state_ = State::kKey;
    return true;
  }

  bool key(AnswerSink& out) {
    skip_blanks();
    if (rest().empty()) return false;
    if (rest()[0] == ')') {
      skip(1);
      return end_call(true, State::kAfterCall, out);
    }
    const std::size_t at = rest().find('=');
    const std::string name(trim_blanks(rest().substr(0, at)));
    if (!is_name(name) || name.size() > kNameBytesMax) return end_call(false, State::kText, out);
    if (at == std::string_view::npos) return false;
    skip(at + 1);
    out.arguments((params_++ == 0 ? "{\"" : ", \"") + name + "\": ");
    value_ = LiteralPasser(kDialect);
    state_ = State::kValue;
    return true;
  }

  bool end_call(bool complete, State next, AnswerSink& out) {
    if (complete) out.arguments(params_ == 0 ? "{}" : "}");
    out.end_call(complete);
    state_ = next;
    return true;
  }

  bool after_list() {
    const std::size_t at = blanks();
    if (at == rest().size()) return false;
    for (const std::string_view closer : kClosers) {
      const Match here = match(closer, at);
      if (here == Match::kMaybe || is_tail(closer, at)) return false;
      if (here != Match::kYes) continue;
      skip(at + closer.size());
      break;
    }
    state_ = State::kText;
    return true;
  }

  void close(bool cut, AnswerSink& out) override {
    switch (state_) {
      case State::kKey:
        return out.end_call(/*complete=*/false);
      case State::kValue:
      case State::kAfterValue:
        if (std::string json; state_ == State::kAfterValue || (!cut && value_.finish(json))) {
          out.arguments(json + "}");
          return out.end_call(/*complete=*/true);
        }
        return out.end_call(/*complete=*/false);
      case State::kStart:
        return out.content(rest());
      case State::kList:
      case State::kName:
        if (!cut && !called_) out.content(markup_ + std::string(rest()));
        return;
      default:
        return;
    }
  }

  std::shared_ptr<const ToolSet> tools_;
  State state_ = State::kStart;
  std::string markup_;  // since the list began: text after all if no call follows
  bool called_ = false;
  int params_ = 0;
  LiteralPasser value_{kDialect};
};

}  // namespace

std::unique_ptr<ToolParser> make_pythonic(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<Pythonic>(std::move(tools));
}

}  // namespace met::text
