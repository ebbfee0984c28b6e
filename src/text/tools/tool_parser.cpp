#include "text/tools/tool_parser.h"

#include <algorithm>

#include "text/tools/formats.h"

namespace met::text {
namespace {

using Texts = std::span<const std::string_view>;
using Make = std::unique_ptr<ToolParser> (*)(std::shared_ptr<const ToolSet>);

constexpr std::string_view kToolCall[] = {"<tool_call>"};
constexpr std::string_view kToolCallTokens[] = {"<tool_call>", "</tool_call>"};
constexpr std::string_view kPairTokens[] = {"<tool_call>", "</tool_call>", "<arg_key>",
                                            "</arg_key>",  "<arg_value>",  "</arg_value>"};
constexpr std::string_view kGemma[] = {"<|tool_call>"};
constexpr std::string_view kGemmaTokens[] = {"<|tool_call>", "<tool_call|>", "<|\"|>"};
constexpr std::string_view kMistral[] = {"[TOOL_CALLS]"};
constexpr std::string_view kMistralTokens[] = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"};
constexpr std::string_view kMinimax[] = {"<minimax:tool_call>"};
constexpr std::string_view kMinimaxTokens[] = {"<minimax:tool_call>", "</minimax:tool_call>"};
constexpr std::string_view kLlamaTokens[] = {"<|python_tag|>"};
constexpr std::string_view kPythonic[] = {"<|tool_call_start|>", "<|python_start|>"};
constexpr std::string_view kPythonicTokens[] = {"<|tool_call_start|>", "<|tool_call_end|>",
                                                "<|python_start|>", "<|python_end|>"};
constexpr std::string_view kDeepseek[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                          "<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"};
constexpr std::string_view kDeepseekTokens[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                                                "<｜tool▁call▁begin｜>",  "<｜tool▁call▁end｜>",
                                                "<｜tool▁sep｜>",         "｜DSML｜"};

struct Row {
  ToolFormat format;
  std::string_view name;
  Make make;
  Texts openers;
  Texts tokens;
};

constexpr Row kFormats[] = {
    {ToolFormat::kNone, "none", nullptr, {}, {}},
    {ToolFormat::kHermes, "hermes", make_hermes, kToolCall, kToolCallTokens},
    {ToolFormat::kQwen3Coder, "qwen3_coder", make_qwen3_xml, kToolCall, kToolCallTokens},
    {ToolFormat::kQwen3Xml, "qwen3_xml", make_qwen3_xml, kToolCall, kToolCallTokens},
    {ToolFormat::kGemma4, "gemma4", make_gemma4, kGemma, kGemmaTokens},
    {ToolFormat::kMistral, "mistral", make_mistral, kMistral, kMistralTokens},
    {ToolFormat::kMinimaxXml, "minimax_xml", make_minimax, kMinimax, kMinimaxTokens},
    {ToolFormat::kBareJson, "bare_json", make_bare_json, {}, kLlamaTokens},
    {ToolFormat::kPoolsideV1, "poolside_v1", make_arg_pairs, kToolCall, kPairTokens},
    {ToolFormat::kGlm47, "glm47", make_arg_pairs, kToolCall, kPairTokens},
    {ToolFormat::kDeepseek, "deepseek", make_deepseek, kDeepseek, kDeepseekTokens},
    {ToolFormat::kHarmony, "harmony", nullptr, {}, {}},
    {ToolFormat::kLlama3Json, "llama3_json", make_bare_json, {}, kLlamaTokens},
    {ToolFormat::kPythonic, "pythonic", make_pythonic, kPythonic, kPythonicTokens},
};

struct ModelRow {
  std::string_view model_type;
  ToolFormat format;
};

constexpr ModelRow kModels[] = {
    {"deepseek_v3", ToolFormat::kDeepseek},   {"deepseek_v32", ToolFormat::kDeepseek},
    {"deepseek_v4", ToolFormat::kDeepseek},   {"deepseek_v41", ToolFormat::kDeepseek},
    {"gemma4", ToolFormat::kGemma4},          {"gemma4_text", ToolFormat::kGemma4},
    {"glm4_moe", ToolFormat::kGlm47},         {"glm4_moe_lite", ToolFormat::kGlm47},
    {"glm5_next", ToolFormat::kGlm47},        {"gpt_oss", ToolFormat::kHarmony},
    {"holo3_1_moe", ToolFormat::kQwen3Coder}, {"laguna", ToolFormat::kPoolsideV1},
    {"lfm2", ToolFormat::kPythonic},          {"lfm2_moe", ToolFormat::kPythonic},
    {"llama", ToolFormat::kLlama3Json},       {"llama4", ToolFormat::kPythonic},
    {"minimax_m2", ToolFormat::kMinimaxXml},  {"ministral3", ToolFormat::kMistral},
    {"mistral", ToolFormat::kMistral},        {"mistral3", ToolFormat::kMistral},
    {"nemotron_h", ToolFormat::kQwen3Coder},  {"qwen2", ToolFormat::kHermes},
    {"qwen2_moe", ToolFormat::kHermes},       {"qwen3", ToolFormat::kHermes},
    {"qwen3_5", ToolFormat::kQwen3Coder},     {"qwen3_5_moe", ToolFormat::kQwen3Coder},
    {"qwen3_6_moe", ToolFormat::kQwen3Coder}, {"qwen3_moe", ToolFormat::kHermes},
    {"qwen3_next", ToolFormat::kHermes},      {"qwen3_vl_moe", ToolFormat::kHermes},
    {"qwen4_exp", ToolFormat::kQwen3Coder},   {"smollm3", ToolFormat::kHermes},
};

const Row& row(ToolFormat format) { return *std::ranges::find(kFormats, format, &Row::format); }

}  // namespace

std::string_view name(ToolFormat format) { return row(format).name; }

std::optional<ToolFormat> tool_format(std::string_view name) {
  const auto* found = std::ranges::find(kFormats, name, &Row::name);
  if (found == std::end(kFormats)) return std::nullopt;
  return found->format;
}

std::string tool_format_names() {
  std::string out;
  for (const Row& each : kFormats)
    if (each.format != ToolFormat::kNone) out += (out.empty() ? "" : ", ") + std::string(each.name);
  return out;
}

ToolFormat tool_format_of_model(std::string_view model_type) {
  const auto* found = std::ranges::find(kModels, model_type, &ModelRow::model_type);
  return found == std::end(kModels) ? ToolFormat::kNone : found->format;
}

ToolFormat tool_format_of_template(std::string_view text) {
  struct Sign {
    std::string_view marker;
    ToolFormat format;
  };
  // The more special before the more general: several formats share <tool_call>.
  constexpr Sign kSigns[] = {
      {"<|channel|>commentary", ToolFormat::kHarmony},
      {"<minimax:tool_call>", ToolFormat::kMinimaxXml},
      {"<|tool_call>call:", ToolFormat::kGemma4},
      {"｜DSML｜", ToolFormat::kDeepseek},
      {"<｜tool▁calls▁begin｜>", ToolFormat::kDeepseek},
      {"[TOOL_CALLS]", ToolFormat::kMistral},
      {"<|tool_call_start|>", ToolFormat::kPythonic},
      {"<|python_start|>", ToolFormat::kPythonic},
      {"<arg_key>", ToolFormat::kGlm47},
      {"<function=", ToolFormat::kQwen3Coder},
      {"<tool_call>", ToolFormat::kHermes},
      {"<|python_tag|>", ToolFormat::kLlama3Json},
      {"{\"name\": function name, \"parameters\":", ToolFormat::kLlama3Json},
  };
  for (const Sign& sign : kSigns)
    if (text.contains(sign.marker)) return sign.format;
  return ToolFormat::kNone;
}

std::unique_ptr<ToolParser> make_tool_parser(ToolFormat format, std::shared_ptr<const ToolSet> tools) {
  const Make make = row(format).make;
  return make == nullptr ? nullptr : make(std::move(tools));
}

std::span<const std::string_view> tool_openers(ToolFormat format) { return row(format).openers; }
std::span<const std::string_view> tool_tokens(ToolFormat format) { return row(format).tokens; }

}  // namespace met::text
