// Names of vLLM, SGLang and llama.cpp that have no effect here or whose effect is lacking: a client is told, never
// left to wonder.
#include <algorithm>
#include <tuple>

#include "api/fields.h"
#include "api/grammar_fields.h"
#include "core/concat.h"

namespace met::api {
namespace {

using R = GenerationRequest;
using V = json::Value;
using C = ParseContext;
using K = Field::Known;
constexpr double kInt32 = 2147483647;

std::unexpected<Error> lacking(const Field& field) {
  return unsupported(std::string(field.name), concat(field.name, " is not supported"));
}

/// A switch that cannot be switched off here.
Result<void> refuse_false(const Field& field, const V& value, R&, const C&) {
  MET_ASSIGN(const bool on, read_bool(field.name, value));
  if (!on) return lacking(field);
  return {};
}

/// A number of which only these values say what is done anyway.
template <int... kNeutral>
Result<void> refuse_unless(const Field& field, const V& value, R&, const C&) {
  MET_ASSIGN(const double number, read_number(field, value));
  if (!((number == kNeutral) || ...)) return lacking(field);
  return {};
}

/// llama.cpp's max_tokens: -1 is no bound.
Result<void> read_n_predict(const Field& field, const V& value, R& r, const C&) {
  MET_ASSIGN(const std::int64_t most, read_integer(field, value));
  if (most == 0) return invalid("n_predict", "n_predict must be -1 or at least 1, got 0");
  if (most > 0) r.max_tokens = most;
  return {};
}

/// vLLM's end of an answer that repeats itself. `max_pattern_size` 0 switches it off.
Result<void> read_repetition(const Field& field, const V& value, R& r, const C&) {
  if (!value.is_object())
    return invalid(std::string(field.name), concat(field.name, " must be an object, got ", shown(value)));
  constexpr double kPatternMax = 2048;
  int least = 0;
  for (const auto& [name, slot, most] :
       {std::tuple{"max_pattern_size", &r.repetition.max_pattern, kPatternMax},
        std::tuple{"min_pattern_size", &least, kPatternMax},
        std::tuple{"min_count", &r.repetition.min_count, kInt32}}) {
    const V* v = value.find(name);
    if (v == nullptr || v->is_null()) continue;
    const std::string place = concat(field.name, ".", name);
    auto number = read_integer({.name = place, .slot = K::kInteger, .min = 0, .max = most}, *v);
    if (!number) return invalid(std::string(field.name), number.error().message);
    *slot = static_cast<int>(*number);
  }
  r.repetition.min_pattern = std::max(least, 1);
  if (least > r.repetition.max_pattern)
    return invalid(std::string(field.name),
                   concat("repetition_detection.min_pattern_size is ", least,
                          ", more than max_pattern_size, which is ", r.repetition.max_pattern));
  if (r.repetition.on() && r.repetition.min_count < 2)
    return invalid(std::string(field.name),
                   concat("repetition_detection.min_count must be at least 2, got ", r.repetition.min_count));
  for (const auto& [name, unused] : value.as_object())
    if (name != "max_pattern_size" && name != "min_pattern_size" && name != "min_count")
      r.ignored.push_back(concat(field.name, ".", name));
  return {};
}

template <grammar::Kind kKind>
Result<void> read_grammar(const Field& field, const V& value, R& r, const C&) {
  MET_ASSIGN(auto spec, read_notation(field.name, kKind, value));
  return set_grammar(r, std::move(spec));
}

constexpr Field kForeign[] = {
    // other names for what we have
    {"n_predict", read_n_predict, -1, 1e15},
    {"no_stop_trim", [](R& r) -> bool& { return r.include_stop_str_in_output; }},
    {"repetition_detection", read_repetition},
    {"regex", read_grammar<grammar::Kind::kRegex>},
    {"ebnf", read_grammar<grammar::Kind::kEbnf>},
    // without effect on the text: speed, place and labels
    {"cache_prompt", K::kBool},
    {"skip_reading_prefix_cache", K::kBool},
    {"id_slot", K::kInteger, -1, kInt32},
    {"n_keep", K::kInteger, -1, kInt32},  // the context is never shifted
    {"n_discard", K::kInteger, 0, kInt32},
    {"request_id", K::kText},
    {"rid", K::kText},
    {"spaces_between_special_tokens", K::kBool},
    {"mm_processor_kwargs", K::kObject},
    {"media_io_kwargs", K::kObject},
    {"length_penalty", K::kNumber},  // of beams, of which there are none
    {"early_stopping", K::kBool},
    // done anyway: the other value is refused
    {"detokenize", refuse_false},
    {"separate_reasoning", refuse_false},
    {"stream_reasoning", refuse_false},
    {"parse_tool_calls", refuse_false},
    {"num_beams", refuse_unless<1>, 1, kInt32},
    {"repeat_last_n", refuse_unless<-1>, -1, kInt32},  // penalties count the whole context
    {"min_keep", refuse_unless<0, 1>, 0, kInt32},
    {"tfs_z", refuse_unless<1>, 0, 1},
    {"n_probs", refuse_unless<0>, 0, kInt32},
    {"n_indent", refuse_unless<0>, 0, kInt32},
    {"t_max_predict_ms", refuse_unless<0, -1>, -1, 1e15},
    {"reasoning_format", K::kText, 0, 0, false, "auto|deepseek"},
    // lacking
    {"use_beam_search", refuse_field},
    {"adapter", refuse_field},
    {"lora", refuse_field},
    {"lora_path", refuse_field},
    {"logits_processors", refuse_field},
    {"custom_logit_processor", refuse_field},
    {"custom_params", refuse_field},
    {"vllm_xargs", refuse_field},
    {"kv_transfer_params", refuse_field},
    {"session_params", refuse_field},
    {"return_hidden_states", refuse_field},
    {"logprob_token_ids", refuse_field},
    {"guided_whitespace_pattern", refuse_field},
    {"grammar_lazy", refuse_field},
    {"grammar_triggers", refuse_field},
    {"samplers", refuse_field},
    {"penalize_nl", refuse_field},
    {"response_fields", refuse_field},
    {"timings_per_token", refuse_field},
    {"return_progress", refuse_field},
    {"post_sampling_probs", refuse_field},
};

}  // namespace

std::span<const Field> foreign_fields() { return kForeign; }

Result<void> refuse_field(const Field& field, const V& value, R&, const C&) {
  const bool neutral =
      (value.is_bool() && !value.as_bool()) || (value.is_array() && value.as_array().empty()) ||
      (value.is_object() && value.as_object().empty()) || (value.is_string() && value.as_string().empty());
  if (neutral) return {};
  return lacking(field);
}

}  // namespace met::api
