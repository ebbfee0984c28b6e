// Every field of the two generating routes, by table. Names are OpenAI's; where OpenAI has none, vLLM's and
// llama.cpp's.
#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "api/fields.h"
#include "api/grammar_fields.h"
#include "api/items.h"
#include "api/tool_fields.h"
#include "core/concat.h"

namespace met::api {
namespace {

using R = GenerationRequest;
using V = json::Value;
using C = ParseContext;
using K = Field::Known;
constexpr double kInt32 = 2147483647;
constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
constexpr int kTopMax = 20;
constexpr std::size_t kBiasMax = 1024;
constexpr std::size_t kStopsMax = 16;

// ---- readers of the fields that are no plain scalar

Result<void> read_stop(const Field& f, const V& value, R& r, const C&) {
  std::vector<std::string> stops;
  if (value.is_string()) {
    if (value.as_string().empty()) return invalid("stop", "stop must not be an empty string");
    stops.push_back(value.as_string());
  } else {
    MET_ASSIGN(stops, read_texts(f.name, value));
  }
  if (stops.size() > kStopsMax)
    return invalid("stop", concat("stop must hold at most ", kStopsMax, " strings, got ", stops.size()));
  r.stop = std::move(stops);
  return {};
}

Result<void> read_stop_token_ids(const Field& f, const V& value, R& r, const C& c) {
  MET_ASSIGN(r.stop_token_ids, read_ids(f.name, value, c.vocabulary));
  return {};
}

Result<void> read_allowed_token_ids(const Field& f, const V& value, R& r, const C& c) {
  MET_ASSIGN(r.sampling.allowed_token_ids, read_ids(f.name, value, c.vocabulary));
  if (r.sampling.allowed_token_ids.empty())
    return invalid("allowed_token_ids", "allowed_token_ids must not be empty: nothing could be generated");
  return {};
}

Result<void> read_seed(const Field& f, const V& value, R& r, const C&) {
  const auto seed = read_integer(f, value);
  if (!seed)
    return invalid(std::string(f.name), concat(f.name, " must be an integer from ", kInt64Min, " to ",
                                               kInt64Max, ", got ", shown(value)));
  r.sampling.seed = static_cast<std::uint64_t>(*seed);
  return {};
}

/// vLLM's -1, the whole vocabulary, is over its bound too unless its server is started with another.
Result<void> read_prompt_logprobs(const Field& f, const V& value, R& r, const C&) {
  if (value == V(-1))
    return invalid(std::string(f.name),
                   concat(f.name, " must be from 0 to ", kTopMax,
                          ", got -1: log-probabilities of the whole vocabulary are not given"));
  MET_ASSIGN(const std::int64_t top, read_integer(f, value));
  r.prompt_logprobs = static_cast<int>(top);
  return {};
}

Result<void> read_truncation(const Field& f, const V& value, R& r, const C&) {
  MET_ASSIGN(const std::int64_t tokens, read_integer(f, value));
  if (tokens == 0)
    return invalid(std::string(f.name),
                   concat(f.name, " must be at least 1, or -1 for what the context holds, got 0"));
  r.truncate_prompt_tokens = tokens;
  return {};
}

Result<void> read_logit_bias(const Field&, const V& value, R& r, const C& c) {
  if (!value.is_object())
    return invalid("logit_bias",
                   concat("logit_bias must be an object of token id to bias, got ", shown(value)));
  if (value.as_object().size() > kBiasMax)
    return invalid("logit_bias", concat("logit_bias must hold at most ", kBiasMax, " entries, got ",
                                        value.as_object().size()));
  for (const auto& [key, bias] : value.as_object()) {
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc{} || end != key.data() + key.size() || id < 0 || id >= c.vocabulary)
      return invalid("logit_bias", concat("logit_bias has the key ", shown(V(key)),
                                          ", which is no token id from 0 to ", c.vocabulary - 1));
    if (!bias.is_number() || bias.as_number() < -100 || bias.as_number() > 100)
      return invalid("logit_bias", concat("logit_bias of token ", id,
                                          " must be a number from -100 to 100, got ", shown(bias)));
    r.sampling.logit_bias.emplace_back(static_cast<TokenId>(id), static_cast<float>(bias.as_number()));
  }
  return {};
}

Result<void> read_chat_logprobs(const Field& f, const V& value, R& r, const C&) {
  MET_ASSIGN(const bool on, read_bool(f.name, value));
  r.logprobs = on ? std::max(r.logprobs, 0) : -1;
  return {};
}

Result<void> read_stream_options(const Field&, const V& value, R& r, const C&) {
  if (!value.is_object())
    return invalid("stream_options", concat("stream_options must be an object, got ", shown(value)));
  constexpr bool R::* kNoSlot = nullptr;  // chunks are not padded: nothing to switch off
  for (const auto& [name, slot] : {std::pair{"include_usage", &R::include_usage},
                                   std::pair{"continuous_usage_stats", &R::continuous_usage_stats},
                                   std::pair{"include_obfuscation", kNoSlot}}) {
    const V* v = value.find(name);
    if (v == nullptr || v->is_null()) continue;
    if (!v->is_bool())
      return invalid("stream_options",
                     concat("stream_options.", name, " must be true or false, got ", shown(*v)));
    if (slot != kNoSlot) r.*slot = v->as_bool();
  }
  for (const auto& [name, unused] : value.as_object())
    if (name != "include_usage" && name != "continuous_usage_stats" && name != "include_obfuscation")
      r.ignored.push_back("stream_options." + name);
  return {};
}

Result<void> read_format(const Field& f, const V& value, R& r, const C&) {
  MET_ASSIGN(auto spec, read_response_format(f.name, value));
  return set_grammar(r, std::move(spec));
}

Result<void> read_structure(const Field& f, const V& value, R& r, const C&) {
  MET_ASSIGN(auto spec, read_structured_outputs(f.name, value));
  return set_grammar(r, std::move(spec));
}

template <grammar::Kind kKind>
Result<void> read_grammar(const Field& f, const V& value, R& r, const C&) {
  MET_ASSIGN(auto spec, read_notation(f.name, kKind, value));
  return set_grammar(r, std::move(spec));
}

/// A guess at the answer, by which others speed up: the text is the same with it and without.
Result<void> read_prediction(const Field&, const V& value, R&, const C&) {
  const V* type = value.find("type");
  if (type == nullptr || *type != V("content") || value.find("content") == nullptr)
    return invalid("prediction", "prediction must be an object with the type content and a content");
  return {};
}

Result<void> read_modalities(const Field&, const V& value, R&, const C&) {
  if (value.is_array() && value.as_array().size() == 1 && value.as_array()[0] == V("text")) return {};
  return unsupported("modalities", "modalities must be [\"text\"]: the model gives text only");
}

// ---- the tables

constexpr Field kCommon[] = {
    // sampling
    {"temperature", [](R& r) -> double& { return r.sampling.temperature; }, 0, 2},
    {"top_p", [](R& r) -> double& { return r.sampling.top_p; }, 0, 1},
    {"top_k", [](R& r) -> int& { return r.sampling.top_k; }, -1, kInt32},
    {"min_p", [](R& r) -> double& { return r.sampling.min_p; }, 0, 1},
    {"typical_p", [](R& r) -> double& { return r.sampling.typical_p; }, 0, 1},
    {"top_n_sigma", [](R& r) -> double& { return r.sampling.top_n_sigma; }, -1, 1000},
    {"xtc_probability", [](R& r) -> double& { return r.sampling.xtc_probability; }, 0, 1},
    {"xtc_threshold", [](R& r) -> double& { return r.sampling.xtc_threshold; }, 0, 1},
    {"repetition_penalty", [](R& r) -> double& { return r.sampling.repetition_penalty; }, 0, 100, true},
    {"repeat_penalty", [](R& r) -> double& { return r.sampling.repetition_penalty; }, 0, 100, true},
    {"presence_penalty", [](R& r) -> double& { return r.sampling.presence_penalty; }, -2, 2},
    {"frequency_penalty", [](R& r) -> double& { return r.sampling.frequency_penalty; }, -2, 2},
    {"dry_multiplier", [](R& r) -> double& { return r.sampling.dry_multiplier; }, 0, 100},
    {"dry_base", [](R& r) -> double& { return r.sampling.dry_base; }, 0, 100},
    {"dry_allowed_length", [](R& r) -> int& { return r.sampling.dry_allowed_length; }, 0, kInt32},
    {"dry_penalty_last_n", [](R& r) -> int& { return r.sampling.dry_penalty_last_n; }, -1, kInt32},
    {"dry_sequence_breakers", [](R& r) -> std::vector<std::string>& { return r.dry_sequence_breakers; }},
    {"dynatemp_range", [](R& r) -> double& { return r.sampling.dynatemp_range; }, 0, 10},
    {"dynatemp_exponent", [](R& r) -> double& { return r.sampling.dynatemp_exponent; }, 0, 100},
    {"mirostat", [](R& r) -> int& { return r.sampling.mirostat; }, 0, 2},
    {"mirostat_tau", [](R& r) -> double& { return r.sampling.mirostat_tau; }, 0, 100},
    {"mirostat_eta", [](R& r) -> double& { return r.sampling.mirostat_eta; }, 0, 1},
    {"logit_bias", read_logit_bias},
    {"allowed_token_ids", read_allowed_token_ids},
    {"bad_words", [](R& r) -> std::vector<std::string>& { return r.bad_words; }},
    {"seed", read_seed},
    {"n", [](R& r) -> int& { return r.n; }, 1, 128},
    // the end
    {"max_completion_tokens", [](R& r) -> std::optional<std::int64_t>& { return r.max_tokens; }, 1, 1e15},
    {"min_tokens", [](R& r) -> int& { return r.sampling.min_tokens; }, 0, kInt32},
    {"ignore_eos", [](R& r) -> bool& { return r.ignore_eos; }},
    {"stop", read_stop},
    {"stop_token_ids", read_stop_token_ids},
    {"include_stop_str_in_output", [](R& r) -> bool& { return r.include_stop_str_in_output; }},
    {"timeout", [](R& r) -> std::optional<double>& { return r.timeout_s; }, 0, 1e9, true},
    // the answer's form
    {"stream", [](R& r) -> bool& { return r.stream; }},
    {"stream_options", read_stream_options},
    {"skip_special_tokens", [](R& r) -> bool& { return r.skip_special_tokens; }},
    {"return_token_ids", [](R& r) -> bool& { return r.return_token_ids; }},
    {"return_tokens_as_token_ids", [](R& r) -> bool& { return r.tokens_as_ids; }},
    {"prompt_logprobs", read_prompt_logprobs, 0, kTopMax},
    // the prompt
    {"add_special_tokens", [](R& r) -> std::optional<bool>& { return r.add_special_tokens; }},
    {"truncate_prompt_tokens", read_truncation, -1, 1e12},
    {"cache_salt",
     [](const Field& f, const V& v, R& r, const C&) -> Result<void> {
       if (!v.is_string() || v.as_string().empty())
         return invalid(std::string(f.name),
                        concat("cache_salt must be a string that is not empty, got ", shown(v)));
       r.cache_salt = v.as_string();
       return {};
     }},
    {"priority", [](R& r) -> int& { return r.priority; }, -kInt32, kInt32},
    // accepted, without effect on the text
    {"model", K::kAny},  // read_model has seen it
    {"user", K::kText},
    {"safety_identifier", K::kText},
    {"prompt_cache_key", K::kText},
    {"prompt_cache_retention", K::kText},
    {"prompt_cache_options", K::kObject},
    // what the text must be
    {"response_format", read_format},
    {"structured_outputs", read_structure},
    {"guided_json", read_grammar<grammar::Kind::kJsonSchema>},
    {"guided_regex", read_grammar<grammar::Kind::kRegex>},
    {"guided_choice", read_grammar<grammar::Kind::kChoice>},
    {"guided_grammar", read_grammar<grammar::Kind::kEbnf>},
    {"guided_decoding_backend", K::kText},
    {"json_schema", read_grammar<grammar::Kind::kJsonSchema>},
    {"grammar", read_grammar<grammar::Kind::kEbnf>},
};

constexpr Field kChat[] = {
    {"messages",
     [](const Field&, const V& v, R& r, const C&) -> Result<void> {
       MET_ASSIGN(r.messages, read_messages(v));
       return {};
     }},
    {"max_tokens", [](R& r) -> std::optional<std::int64_t>& { return r.max_tokens; }, 1, 1e15},
    {"logprobs", read_chat_logprobs},
    {"top_logprobs", K::kInteger, 0, 20},  // joined with logprobs below
    {"add_generation_prompt", [](R& r) -> std::optional<bool>& { return r.add_generation_prompt; }},
    {"continue_final_message", [](R& r) -> bool& { return r.continue_final_message; }},
    {"chat_template_kwargs", [](R& r) -> json::Object& { return r.chat_template_kwargs; }},
    {"chat_template", refuse_field},
    {"reasoning_effort", [](R& r) -> std::string& { return r.reasoning_effort; }, 0, 0, false,
     "none|minimal|low|medium|high|xhigh|max"},
    {"metadata",
     [](const Field&, const V& v, R& r, const C&) -> Result<void> {
       MET_ASSIGN(r.metadata, read_metadata(v));
       return {};
     }},
    {"store", [](R& r) -> bool& { return r.store; }},
    {"service_tier", K::kText, 0, 0, false, "auto|default|flex|scale|priority|fast"},
    {"verbosity", K::kText, 0, 0, false, "low|medium|high"},
    {"parallel_tool_calls", [](R& r) -> std::optional<bool>& { return r.tool_choice.parallel; }},
    {"tools", read_tools},
    {"tool_choice", read_tool_choice},
    {"functions", read_functions},
    {"function_call", read_function_call},
    {"thinking", read_thinking},
    {"enable_thinking", [](R& r) -> std::optional<bool>& { return r.thinking.enabled; }},
    {"thinking_token_budget", [](R& r) -> std::optional<std::int64_t>& { return r.thinking.budget_tokens; },
     0, 1e12},
    {"preserve_thinking", [](R& r) -> std::optional<bool>& { return r.thinking.preserve; }},
    {"include_reasoning", [](R& r) -> bool& { return r.thinking.show; }},
    {"modalities", read_modalities},
    {"audio", refuse_field},
    {"web_search_options", refuse_field},
    {"moderation", refuse_field},
    {"prediction", read_prediction},
    {"documents", refuse_field},
};

constexpr Field kCompletion[] = {
    {"prompt",
     [](const Field&, const V& v, R& r, const C& c) -> Result<void> {
       MET_ASSIGN(r.prompts, read_prompts(v, c));
       return {};
     }},
    {"max_tokens", [](R& r) -> std::optional<std::int64_t>& { return r.max_tokens; }, 0, 1e15},
    {"logprobs", [](R& r) -> int& { return r.logprobs; }, 0, 20},
    {"best_of", [](R& r) -> std::optional<int>& { return r.best_of; }, 1, 128},
    {"echo", [](R& r) -> bool& { return r.echo; }},
    {"prompt_embeds", refuse_field},
    {"suffix", [](R& r) -> std::string& { return r.suffix; }},
};

R with_defaults(const C& context) {
  R r;
  const config::GenerationDefaults& d = context.defaults;
  r.sampling.temperature = d.temperature.value_or(r.sampling.temperature);
  r.sampling.top_p = d.top_p.value_or(r.sampling.top_p);
  r.sampling.min_p = d.min_p.value_or(r.sampling.min_p);
  r.sampling.top_k = d.top_k.value_or(r.sampling.top_k);
  r.sampling.repetition_penalty = d.repetition_penalty.value_or(r.sampling.repetition_penalty);
  return r;
}

bool given(const V& body, std::string_view name) {
  const V* v = body.find(name);
  return v != nullptr && !v->is_null();
}

/// Rules between fields that both routes share.
Result<void> check_together(const V& body, R& r) {
  if (given(body, "stream_options") && !r.stream)
    return invalid("stream_options", "stream_options is allowed only when stream is true");
  if (r.max_tokens && r.sampling.min_tokens > *r.max_tokens)
    return invalid("min_tokens", concat("min_tokens is ", r.sampling.min_tokens,
                                        ", more than max_tokens, which is ", *r.max_tokens));
  if (r.prompt_logprobs && r.stream)
    return invalid("prompt_logprobs", "prompt_logprobs is not available when stream is true");
  r.sampling.top_n_sigma = std::max(r.sampling.top_n_sigma, 0.0);
  r.sampling.top_k = std::max(r.sampling.top_k, 0);
  r.sampling.logprobs = r.logprobs;
  return {};
}

Result<void> check_object(const V& body) {
  if (!body.is_object()) return invalid("", concat("the body must be a JSON object, got ", shown(body)));
  return {};
}

}  // namespace

Result<GenerationRequest> parse_chat(const V& body, const C& context) {
  MET_TRY(check_object(body));
  R r = with_defaults(context);
  MET_ASSIGN(r.model, read_model(body, context));
  MET_TRY(read_fields(body.as_object(), {kCommon, kChat, foreign_fields()}, context, r));
  if (!given(body, "messages")) return invalid("messages", "messages is missing");
  if (given(body, "max_completion_tokens"))  // whatever the order of the two names
    r.max_tokens = static_cast<std::int64_t>(body.find("max_completion_tokens")->as_number());
  if (given(body, "top_logprobs")) {
    if (r.logprobs < 0) return invalid("top_logprobs", "top_logprobs needs logprobs to be true");
    r.logprobs = static_cast<int>(body.find("top_logprobs")->as_number());
  }
  if (r.continue_final_message && r.add_generation_prompt.value_or(false))
    return invalid("continue_final_message",
                   "continue_final_message and add_generation_prompt cannot both be true");
  if (r.continue_final_message) {
    const V* role = r.messages.back().find("role");
    if (role->as_string() != "assistant")
      return invalid("continue_final_message",
                     "continue_final_message needs an assistant message at the end");
  }
  r.detect_refusals =
      context.detect_refusals && !r.grammar;  // such a text is what the request wants it to be
  MET_TRY(check_tool_choice(r));
  MET_TRY(check_together(body, r));
  return r;
}

Result<GenerationRequest> parse_completion(const V& body, const C& context) {
  MET_TRY(check_object(body));
  R r = with_defaults(context);
  MET_ASSIGN(r.model, read_model(body, context));
  MET_TRY(read_fields(body.as_object(), {kCommon, kCompletion, foreign_fields()}, context, r));
  if (!given(body, "prompt")) return invalid("prompt", "prompt is missing");
  if (!r.max_tokens && !given(body, "n_predict")) r.max_tokens = 16;  // n_predict -1 is no bound
  if (r.max_tokens == 0 && !r.echo)
    return invalid("max_tokens", "max_tokens must be at least 1 unless echo is true");
  if (r.best_of && *r.best_of < r.n)
    return invalid("best_of", concat("best_of must be at least n, which is ", r.n, ", got ", *r.best_of));
  if (!r.suffix.empty() && r.truncate_prompt_tokens)
    return invalid("truncate_prompt_tokens", "truncate_prompt_tokens is not available together with suffix");
  if (r.stream && r.best_of && *r.best_of > r.n)
    return invalid("best_of", "best_of above n is not available when stream is true");
  MET_TRY(check_together(body, r));
  return r;
}

Result<std::string> read_model(const V& body, const C& context) {
  const V* model = body.find("model");
  if (model == nullptr || model->is_null()) return context.models.front();
  if (!model->is_string()) return invalid("model", concat("model must be a string, got ", shown(*model)));
  const std::string& wanted = model->as_string();
  if (std::find(context.models.begin(), context.models.end(), wanted) != context.models.end()) return wanted;
  std::string list;
  for (const std::string& name : context.models) list += (list.empty() ? "" : ", ") + name;
  return fail(ErrorCode::kNotFound, concat("the model ", shown(*model), " does not exist; served: ", list),
              "model");
}

}  // namespace met::api
