// One generation as asked for, whatever the route: what every front end lowers into.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/model_config.h"
#include "core/error.h"
#include "core/json.h"
#include "grammar/spec.h"
#include "sampling/params.h"
#include "text/tools/tool.h"

namespace met::api {

using TokenId = std::int32_t;

/// A prompt of the completions route: text, or ids as they are.
using PromptInput = std::variant<std::string, std::vector<TokenId>>;

/// Which of the request's tools may, or must, be called.
struct ToolChoice {
  enum class Mode { kNone, kAuto, kRequired };
  Mode mode = Mode::kAuto;
  std::vector<std::string> only;  ///< names that may be called; empty: all
  bool named = false;             ///< the choice is one function by its name: one call of it
  /// False: at most one call. Unsaid, free calls are as many as the model makes, and a forced choice is one: a
  /// model that may not write anything else would go on calling.
  std::optional<bool> parallel;
};

/// What the client says about reasoning; what it leaves out, the server's defaults decide.
struct Thinking {
  std::optional<bool> enabled;
  std::optional<std::int64_t> budget_tokens;  ///< above it the reasoning is closed
  std::optional<bool> preserve;               ///< earlier turns keep their reasoning in the prompt
  bool show = true;                           ///< false: the answer comes without its reasoning
};

/// What may leave a conversation before it is rendered: see context_edits.h.
struct ContextEdit {
  enum class Kind { kThinking, kToolUses };
  Kind kind = Kind::kThinking;
  std::int64_t keep = 1;             ///< the last turns with reasoning, or uses of tools, that stay
  std::int64_t trigger = 100'000;    ///< of tool uses: only a prompt of more tokens is edited
  bool trigger_counts_uses = false;  ///< … of more uses
  std::int64_t clear_at_least = 0;   ///< tokens; a smaller gain is none
  std::vector<std::string> exclude;  ///< tools that keep their results
  bool clear_inputs = false;         ///< the calls' arguments go too
  std::vector<std::string> clear_inputs_of;
};

/// When an answer that repeats itself ends: at `min_count` equal patterns of ids, one behind the other.
struct RepetitionRule {
  int min_pattern = 1;  ///< ids of the smallest pattern that counts
  int max_pattern = 0;  ///< of the largest; 0: off
  int min_count = 0;
  bool on() const { return max_pattern > 0; }
};

struct GenerationRequest {
  std::string model;

  // what to continue: messages (chat) or prompts (completions)
  json::Array messages;  ///< checked and normalized: content is text, absent content is ""
  std::vector<PromptInput> prompts;
  std::string suffix;  ///< completions: what stands behind the text that is asked for; empty: nothing
  std::optional<bool> add_generation_prompt;
  bool continue_final_message = false;
  std::optional<std::vector<ContextEdit>>
      context_edits;  ///< in order; absent: the request does not speak of them
  std::optional<bool>
      add_special_tokens;  ///< BOS and the like; by themselves prompts get them and chats do not
  json::Object chat_template_kwargs;
  std::string reasoning_effort;
  Thinking thinking;
  std::vector<text::Tool> tools;
  ToolChoice tool_choice;
  std::optional<std::int64_t>
      truncate_prompt_tokens;  ///< keep only the last ones; -1: as many as leave place for the answer

  // how
  sampling::SamplingParams
      sampling;  ///< starts as the model's defaults; ids of breakers and words come later
  std::vector<std::string> dry_sequence_breakers;
  std::vector<std::string> bad_words;
  int n = 1;
  std::optional<int> best_of;

  std::optional<grammar::Spec> grammar;  ///< what the text must be

  // when to stop
  std::optional<std::int64_t> max_tokens;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false;
  RepetitionRule repetition;
  std::optional<double> timeout_s;

  // what to tell
  bool stream = false;
  bool detect_refusals = false;  ///< an answer that declines is a refusal, not content
  bool include_usage = false;
  bool continuous_usage_stats = false;
  bool echo = false;
  bool skip_special_tokens = true;
  bool return_token_ids = false;
  bool tokens_as_ids = false;  ///< log-probabilities name tokens "token_id:N"
  int logprobs = -1;           ///< -1: none; k: the chosen token's and the k best
  std::optional<int> prompt_logprobs;

  // what to keep
  bool store = false;  ///< chat: the completion can be fetched later
  json::Object metadata;

  // for whom
  int priority = 0;
  std::string cache_salt;

  std::vector<std::string> ignored;  ///< names of fields that nobody knows
};

/// What the parsers need to know about the server.
struct ParseContext {
  std::vector<std::string> models;  ///< served names, the default first
  config::GenerationDefaults defaults;
  std::int64_t vocabulary = 0;  ///< ids are below this
  bool detect_refusals = false;
  int n_max = 128;
  int prompts_max = 1024;
};

/// POST /v1/chat/completions and /v1/completions. Errors: kInvalidArgument or kUnsupported naming the field;
/// kNotFound with field "model".
Result<GenerationRequest> parse_chat(const json::Value& body, const ParseContext& context);
Result<GenerationRequest> parse_completion(const json::Value& body, const ParseContext& context);

/// `messages` as the template will see them: roles and types checked, text parts joined by line breaks,
/// `developer` as `system`, arguments of tool calls as objects. Errors name "messages" and the place in it.
Result<json::Array> read_messages(const json::Value& messages);

/// The `model` field: absent or null is the first served name. Errors: kInvalidArgument, kNotFound (lists the
/// names).
Result<std::string> read_model(const json::Value& body, const ParseContext& context);

/// The `prompt` field of completions and of /tokenize's ids.
Result<std::vector<PromptInput>> read_prompts(const json::Value& prompt, const ParseContext& context);
Result<std::vector<TokenId>> read_ids(std::string_view field, const json::Value& value,
                                      std::int64_t vocabulary);

}  // namespace met::api
