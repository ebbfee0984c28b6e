// What of an answer is reasoning: formats, where an answer begins, and the parsers of channels.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace met::text {

enum class ReasoningFormat {
  kNone,     ///< all text is content
  kThink,    ///< <think>…</think>
  kSeed,     ///< <seed:think>…</seed:think>
  kMistral,  ///< [THINK]…[/THINK]
  kGemma4,   ///< <|channel>thought … <channel|>, more than once
  kHarmony,  ///< channels, see harmony.h
};

std::string_view name(ReasoningFormat format);
/// By name; the names of model families that use <think> are known too.
std::optional<ReasoningFormat> reasoning_format(std::string_view name);
std::string reasoning_format_names();
/// The format whose markers a chat template writes.
ReasoningFormat reasoning_format_of_template(std::string_view chat_template);

/// Texts that part the channels; a vocabulary may have a token for each. Their index is a parser's marker.
std::span<const std::string_view> reasoning_markers(ReasoningFormat format);

/// The text that ends reasoning, for who has to force it; empty where there is none.
std::string_view reasoning_close(ReasoningFormat format);
std::string_view reasoning_open(ReasoningFormat format);

/// Where an answer begins, as the rendered prompt leaves it.
enum class ReasoningStart {
  kAbsent,  ///< nothing was said: the answer may open a block itself, before any text
  kOpen,    ///< inside a block that the prompt opened
  kClosed,  ///< behind a block that the prompt closed: all is content
};

/// Read off the prompt's end: what matters is the marker that it ends with, blanks aside.
ReasoningStart reasoning_start(ReasoningFormat format, std::string_view prompt);

/// Takes what a channel parser finds.
class ChannelOutput {
 public:
  virtual ~ChannelOutput() = default;
  virtual void reasoning(std::string_view text) = 0;
  /// A block was closed: what the reasoning says is final.
  virtual void close_reasoning() = 0;
  virtual void content(std::string_view text) = 0;
  virtual void begin_call(std::string_view name) = 0;
  virtual void arguments(std::string_view text) = 0;
  virtual void end_call(bool complete) = 0;
};

/// Parts an answer into channels. What it gives does not depend on how the text is cut.
class ChannelParser {
 public:
  virtual ~ChannelParser() = default;
  virtual void text(std::string_view bytes, ChannelOutput& out) = 0;
  /// A marker that came as a token of its own.
  virtual void marker(std::size_t which, ChannelOutput& out) = 0;
  virtual void finish(bool cut, ChannelOutput& out) = 0;
  virtual bool in_reasoning() const = 0;
};

struct ChannelOptions {
  ReasoningFormat format = ReasoningFormat::kNone;
  ReasoningStart start = ReasoningStart::kAbsent;
  std::string harmony_header;   ///< of kHarmony: what the prompt has of the message's head
  std::vector<bool> as_tokens;  ///< by marker: it comes as a token, its spelling is text; empty: none does
  bool has_tools = false;
};

/// nullptr for kNone.
std::unique_ptr<ChannelParser> make_channel_parser(const ChannelOptions& options);

}  // namespace met::text
