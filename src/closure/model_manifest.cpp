#include <algorithm>
#include <limits>

#include "closure/manifest.h"
#include "closure/schema.h"

namespace met::closure {
namespace {

#define MET_SAMPLING_ROWS(category)                                                                     \
  {"sampling." category ".temperature", Kind::kNumber}, {"sampling." category ".top_p", Kind::kNumber}, \
      {"sampling." category ".top_k", Kind::kInt}, {"sampling." category ".min_p", Kind::kNumber},      \
      {"sampling." category ".presence_penalty", Kind::kNumber},                                        \
      {"sampling." category ".frequency_penalty", Kind::kNumber},                                       \
      {"sampling." category ".repetition_penalty", Kind::kNumber},                                      \
      {"sampling." category ".dry_multiplier", Kind::kNumber},                                          \
      {"sampling." category ".dry_base", Kind::kNumber},                                                \
      {"sampling." category ".dry_allowed_length", Kind::kInt},                                         \
      {"sampling." category ".lz_penalty", Kind::kNumber}, {                                            \
    "sampling." category ".top_n_sigma", Kind::kNumber                                                  \
  }

constexpr SchemaRow kRows[] = {
    {"model.name", Kind::kString, true},
    {"model.hf_id", Kind::kString},
    {"model.params", Kind::kString},
    {"model.active_params", Kind::kString},
    {"model.architecture", Kind::kString},
    {"model.match_names", Kind::kStrings},
    {"model.kernel_source", Kind::kString},
    {"model.effective_context", Kind::kInt},
    {"model.supported_quants", Kind::kStrings},
    {"model.dims.hidden", Kind::kInt},
    {"model.dims.layers", Kind::kInt},
    {"model.dims.heads", Kind::kInt},
    {"model.dims.kv_heads", Kind::kInt},
    {"model.dims.head_dim", Kind::kInt},
    {"model.dims.rotary_dim", Kind::kInt},
    {"model.dims.ffn", Kind::kInt},
    {"model.dims.vocab", Kind::kInt},
    {"model.dims.experts", Kind::kInt},
    {"model.dims.experts_per_token", Kind::kInt},
    {"model.dims.expert_ffn", Kind::kInt},
    {"model.dims.window", Kind::kInt},
    {"model_types[].model_type", Kind::kString, true},
    {"model_types[].hidden_size", Kind::kInt},
    MET_SAMPLING_ROWS("thinking_text"),
    MET_SAMPLING_ROWS("thinking_coding"),
    MET_SAMPLING_ROWS("non_thinking"),
    MET_SAMPLING_ROWS("tools"),
    {"behavior.thinking_in_tools", Kind::kBool},
    {"behavior.max_thinking_budget", Kind::kInt},
    {"behavior.effort_capped_at_ceiling", Kind::kBool},
    {"behavior.thinking_default", Kind::kBool},
    {"behavior.fp8_kv_calibration_tokens", Kind::kInt},
    {"behavior.default_kv_dtype", Kind::kString},
    {"behavior.default_num_drafts", Kind::kInt},
    {"behavior.mtp_max_seqs", Kind::kInt},
    {"behavior.disable_tool_steering", Kind::kBool},
    {"behavior.disable_cwd_hint_injection", Kind::kBool},
    {"behavior.use_sampling_presets_for_core", Kind::kBool},
    {"behavior.tool_call_parser", Kind::kString},
    {"behavior.enable_loop_watchdog", Kind::kBool},
    {"behavior.enable_think_loop_watchdog", Kind::kBool},
    {"behavior.honor_eos_inside_thinking", Kind::kBool},
    {"behavior.cap_thinking_at_max_tokens", Kind::kBool},
    {"behavior.min_p_floor", Kind::kNumber},
    {"behavior.min_reasoning_floor_tokens", Kind::kInt},
    {"behavior.temperature_max", Kind::kNumber},
    {"behavior.think_loop_min_repeats", Kind::kInt},
    {"behavior.think_loop_scan_window", Kind::kInt},
    {"behavior.confidence_early_stop", Kind::kBool},
    {"behavior.confidence_run_length", Kind::kInt},
    {"behavior.fuzzy_repeat_tolerance_div", Kind::kInt},
    {"behavior.max_inter_tool_prose", Kind::kInt},
    {"behavior.max_post_think_content_tokens", Kind::kInt},
    {"behavior.tscg", Kind::kBool},
    {"behavior.disable_tool_grammar", Kind::kBool},
    {"behavior.rollback_resteer", Kind::kBool},
    {"behavior.rom_head", Kind::kString},
    {"behavior.tool_retry", Kind::kBool},
    {"behavior.preserve_thinking", Kind::kBool},
    {"dflash.drafter", Kind::kString},
    {"dflash.gamma", Kind::kInt},
    {"kernel.*", Kind::kInt},
    {"expected_absent.*.*", Kind::kString},
};
#undef MET_SAMPLING_ROWS

bool is_snake_case(std::string_view key) {
  return !key.empty() && key.front() >= 'a' && key.front() <= 'z' && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Result<> read_types(const json::Value& root, const std::string& name, ModelManifest& out) {
  const json::Value* types = root.find("model_types");
  if (types == nullptr || types->as_array().empty())
    return invalid(name, "key model_types is missing: a target names the model types it serves");
  for (const auto& row : types->as_array()) {
    ModelTypeRow type{string_at(row, "model_type"), int_at(row, "hidden_size")};
    if (!is_snake_case(type.model_type))
      return invalid(name, "key model_types[].model_type is \"" + type.model_type +
                               "\": lower case with '-' and '.' written as '_'");
    if (row.find("hidden_size") && type.hidden_size <= 0)
      return invalid(name, "key model_types[].hidden_size must be positive; leave it out for any size");
    out.model_types.push_back(std::move(type));
  }
  return {};
}

Result<> read_dims(const json::Value& root, const std::string& name, ModelManifest& out) {
  if (const json::Value* dims = at(root, "model.dims"))
    for (const auto& [key, value] : dims->as_object()) {
      if (value.as_int() <= 0 || value.as_int() > std::numeric_limits<std::int32_t>::max())
        return invalid(name, "key model.dims." + key + " is out of range");
      out.dims.emplace_back(key, value.as_int());
    }
  if (const json::Value* constants = root.find("kernel"))
    for (const auto& [key, value] : constants->as_object()) {
      if (!is_snake_case(key)) return invalid(name, "key kernel." + key + " must be snake_case");
      out.constants.emplace_back(key, value.as_int());
    }
  const json::Value* hidden = at(root, "model.dims.hidden");
  for (const ModelTypeRow& type : out.model_types) {
    if (out.exact() != (type.hidden_size > 0))
      return invalid(
          name, out.exact() ? "key model_types[].hidden_size is missing: a model with [model.dims] is exact"
                            : "key model.dims is missing: a target for one hidden_size states its sizes");
    if (out.exact() && (hidden == nullptr || hidden->as_int() != type.hidden_size))
      return invalid(name, "key model.dims.hidden differs from model_types[].hidden_size");
  }
  return {};
}

}  // namespace

Result<ModelManifest> read_model(const std::filesystem::path& path, const std::string& name) {
  MET_ASSIGN(const json::Value root, read_manifest(path, name, kRows));
  ModelManifest out;
  out.name = string_at(root, "model.name");
  out.kernel_source = string_at(root, "model.kernel_source");
  out.match_names = strings_at(root, "model.match_names");
  out.supported_quants = strings_at(root, "model.supported_quants");
  for (const std::string& needle : out.match_names)
    if (needle.empty())
      return invalid(name, "key model.match_names holds an empty name, which matches anything");
  for (const std::string& quant : out.supported_quants)
    if (!is_plain_name(quant)) return invalid(name, "key model.supported_quants holds \"" + quant + "\"");
  MET_TRY(read_types(root, name, out));
  MET_TRY(read_dims(root, name, out));
  if (const json::Value* absent = root.find("expected_absent"))
    for (const auto& [module, kernels] : absent->as_object())
      for (const auto& [kernel, reason] : kernels.as_object()) {
        if (reason.as_string().empty())
          return invalid(name, "key expected_absent." + module + "." + kernel + " gives no reason");
        out.expected_absent.push_back({module, kernel, reason.as_string()});
      }
  json::Object behavior;
  for (const std::string_view key : {"sampling", "behavior", "dflash"})
    if (const json::Value* table = root.find(key)) behavior.append(std::string(key), *table);
  out.behavior = std::move(behavior);
  return out;
}

}  // namespace met::closure
