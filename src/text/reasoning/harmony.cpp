#include "text/reasoning/harmony.h"

#include <algorithm>

#include "text/machine/answer_sink.h"
#include "text/tools/json_passer.h"
#include "text/tools/scan_parser.h"

namespace met::text {
namespace {

constexpr std::string_view kFunctions = "functions.";

enum Marker : std::size_t { kStart, kChannel, kConstrain, kMessage, kEnd, kReturn, kCall };

/// The word behind `mark` in a message's head.
std::string_view word_after(std::string_view head, std::string_view mark) {
  const std::size_t at = head.find(mark);
  if (at == std::string_view::npos) return {};
  head.remove_prefix(at + mark.size());
  head.remove_prefix(std::min(head.find_first_not_of(kBlanks), head.size()));
  return head.substr(0, head.find_first_of(" \t\r\n<"));
}

class HarmonyParser final : public ChannelParser {
 public:
  explicit HarmonyParser(const ChannelOptions& options)
      : has_tools_(options.has_tools),
        head_(options.harmony_header),
        prompt_bytes_(options.harmony_header.size()) {
    for (std::size_t i = 0; i < std::size(kHarmonyMarkers); ++i)
      if (options.as_tokens.empty() || !options.as_tokens[i]) {
        scanned_.push_back(kHarmonyMarkers[i]);
        scanned_index_.push_back(i);
      }
    if (!head_.ends_with(kHarmonyMarkers[kMessage])) return;
    in_head_ = false;
    body_ = kind_of_head();
  }

  void text(std::string_view bytes, ChannelOutput& out) override {
    held_ += bytes;
    scan(/*ended=*/false, out);
  }

  void marker(std::size_t which, ChannelOutput& out) override {
    scan(/*ended=*/true, out);
    handle(which, out);
  }

  void finish(bool cut, ChannelOutput& out) override {
    scan(/*ended=*/true, out);
    leave(out);
    if (!cut && !marked_ && in_head_) out.content(head_.substr(prompt_bytes_));  // it knows no channels
  }

  bool in_reasoning() const override { return !in_head_ && body_ == Body::kReasoning; }

 private:
  enum class Body { kReasoning, kContent, kArguments };

  void scan(bool ended, ChannelOutput& out) {
    for (;;) {
      int which = -1;
      const std::size_t at = find_marker(held_, scanned_, ended, which);
      give(std::string_view(held_).substr(0, at), out);
      held_.erase(0, at);
      if (which < 0) return;
      const auto found = static_cast<std::size_t>(which);
      held_.erase(0, scanned_[found].size());
      handle(scanned_index_[found], out);
    }
  }

  void give(std::string_view text, ChannelOutput& out) {
    if (text.empty()) return;
    if (in_head_) {
      head_ += text;
      return;
    }
    switch (body_) {
      case Body::kReasoning:
        return out.reasoning(text);
      case Body::kContent:
        return out.content(text);
      case Body::kArguments: {
        std::string passed;
        passer_.push(text, passed);
        return out.arguments(passed);
      }
    }
  }

  void handle(std::size_t which, ChannelOutput& out) {
    marked_ = true;
    switch (which) {
      case kStart:
        leave(out);
        in_head_ = true;
        head_.clear();
        return;
      case kChannel:
      case kConstrain:
        if (!in_head_) leave(out);  // a head without its start
        if (!in_head_) head_.clear();
        in_head_ = true;
        head_ += kHarmonyMarkers[which];
        return;
      case kMessage:
        if (in_head_) enter(out);
        return;
      default:
        leave(out);
        in_head_ = true;
        head_.clear();
    }
  }

  Body kind_of_head() const {
    const std::string_view channel = word_after(head_, kHarmonyMarkers[kChannel]);
    const std::string_view recipient = word_after(head_, " to=");
    if (recipient.starts_with(kFunctions) && recipient.size() > kFunctions.size() && has_tools_)
      return Body::kArguments;
    return channel == "analysis" ? Body::kReasoning : Body::kContent;
  }

  void enter(ChannelOutput& out) {
    in_head_ = false;
    body_ = kind_of_head();
    if (body_ == Body::kReasoning && reasoned_) out.reasoning("\n");
    reasoned_ |= body_ == Body::kReasoning;
    if (body_ != Body::kArguments) return;
    passer_ = {};
    std::string_view recipient = word_after(head_, " to=");
    recipient.remove_prefix(kFunctions.size());
    out.begin_call(recipient);
  }

  void leave(ChannelOutput& out) {
    if (in_head_) return;
    if (body_ == Body::kReasoning) out.close_reasoning();
    if (body_ == Body::kArguments) out.end_call(passer_.done());
    body_ = Body::kContent;
  }

  bool has_tools_;
  std::vector<std::string_view> scanned_;  // markers that come as text, and their numbers
  std::vector<std::size_t> scanned_index_;
  std::string held_;
  std::string head_;
  std::size_t prompt_bytes_;  // of the first head: they stand in the prompt
  bool in_head_ = true;
  bool marked_ = false;
  bool reasoned_ = false;
  Body body_ = Body::kContent;
  JsonPasser passer_;
};

}  // namespace

std::string_view harmony_header(std::string_view prompt) {
  const std::size_t start = prompt.rfind(kHarmonyMarkers[kStart]);
  if (start == std::string_view::npos) return {};
  return prompt.substr(start + kHarmonyMarkers[kStart].size());
}

std::unique_ptr<ChannelParser> make_harmony_parser(const ChannelOptions& options) {
  return std::make_unique<HarmonyParser>(options);
}

}  // namespace met::text
