#include "text/reasoning/reasoning.h"

#include <algorithm>

#include "text/reasoning/harmony.h"
#include "text/reasoning/think_parser.h"
#include "text/tools/tool_set.h"

namespace met::text {
namespace {

using Texts = std::span<const std::string_view>;

constexpr std::string_view kThink[] = {"<think>", "</think>"};
constexpr std::string_view kSeed[] = {"<seed:think>", "</seed:think>"};
constexpr std::string_view kMistral[] = {"[THINK]", "[/THINK]"};
constexpr std::string_view kGemma[] = {"<|channel>", "<channel|>"};

struct Row {
  ReasoningFormat format;
  std::string_view name;
  Texts markers;  // what opens, what closes
};

constexpr Row kFormats[] = {
    {ReasoningFormat::kNone, "none", {}},         {ReasoningFormat::kThink, "think", kThink},
    {ReasoningFormat::kSeed, "seed_oss", kSeed},  {ReasoningFormat::kMistral, "mistral", kMistral},
    {ReasoningFormat::kGemma4, "gemma4", kGemma}, {ReasoningFormat::kHarmony, "harmony", kHarmonyMarkers},
};

constexpr std::string_view kThinkToo[] = {
    "deepseek_r1", "deepseek_v3", "glm45",    "glm47", "granite", "minimax", "minimax_m2",
    "nemotron3",   "poolside_v1", "poolside", "qwen3", "smollm3", "step3"};

const Row& row(ReasoningFormat format) { return *std::ranges::find(kFormats, format, &Row::format); }

}  // namespace

std::string_view name(ReasoningFormat format) { return row(format).name; }

std::optional<ReasoningFormat> reasoning_format(std::string_view name) {
  if (std::ranges::find(kThinkToo, name) != std::end(kThinkToo)) return ReasoningFormat::kThink;
  const auto* found = std::ranges::find(kFormats, name, &Row::name);
  if (found == std::end(kFormats)) return std::nullopt;
  return found->format;
}

std::string reasoning_format_names() {
  std::string out;
  for (const Row& each : kFormats) out += (out.empty() ? "" : ", ") + std::string(each.name);
  return out;
}

ReasoningFormat reasoning_format_of_template(std::string_view text) {
  if (text.contains("<|channel|>") && text.contains("<|message|>")) return ReasoningFormat::kHarmony;
  if (text.contains("<|channel>")) return ReasoningFormat::kGemma4;
  if (text.contains("[THINK]")) return ReasoningFormat::kMistral;
  if (text.contains("<seed:think>")) return ReasoningFormat::kSeed;
  if (text.contains("<think>") || text.contains("</think>")) return ReasoningFormat::kThink;
  return ReasoningFormat::kNone;
}

Texts reasoning_markers(ReasoningFormat format) { return row(format).markers; }

std::string_view reasoning_open(ReasoningFormat format) {
  if (format == ReasoningFormat::kGemma4) return "<|channel>thought\n";
  if (format == ReasoningFormat::kNone || format == ReasoningFormat::kHarmony) return {};
  return row(format).markers[0];
}

std::string_view reasoning_close(ReasoningFormat format) {
  if (format == ReasoningFormat::kNone || format == ReasoningFormat::kHarmony) return {};
  return row(format).markers[1];
}

ReasoningStart reasoning_start(ReasoningFormat format, std::string_view prompt) {
  if (format == ReasoningFormat::kNone) return ReasoningStart::kClosed;
  if (format == ReasoningFormat::kHarmony) return ReasoningStart::kAbsent;
  prompt = prompt.substr(prompt.size() - std::min<std::size_t>(prompt.size(), 256));
  const std::string_view end = trim_blanks(prompt);
  if (end.ends_with(trim_blanks(reasoning_open(format)))) return ReasoningStart::kOpen;
  return end.ends_with(reasoning_close(format)) ? ReasoningStart::kClosed : ReasoningStart::kAbsent;
}

std::unique_ptr<ChannelParser> make_channel_parser(const ChannelOptions& options) {
  if (options.format == ReasoningFormat::kNone) return nullptr;
  if (options.format == ReasoningFormat::kHarmony) return make_harmony_parser(options);
  return make_think_parser(options);
}

}  // namespace met::text
