#include "api/prepare.h"

#include <algorithm>

#include "api/chat_format.h"
#include "api/constraint.h"
#include "api/fill_in.h"
#include "api/ignore_eos.h"
#include "api/thinking_budget.h"
#include "core/concat.h"

namespace met::api {
namespace {

using Ids = std::vector<TokenId>;

/// Token sequences that spell `word` at the start of a text and after a blank, so that a ban or a break holds
/// in both.
std::vector<Ids> spellings(const std::string& word, const text::Tokenizer& tokenizer) {
  std::vector<Ids> out;
  const text::EncodeOptions plain{.added = text::AddedTokens::kNone};
  for (const std::string& form : {word, " " + word}) {
    Ids ids = tokenizer.encode(form, plain);
    if (!ids.empty() && std::find(out.begin(), out.end(), ids) == out.end()) out.push_back(std::move(ids));
  }
  return out;
}

/// Single tokens whose bytes hold `breaker`, and its own spelling: llama.cpp's reading of
/// dry_sequence_breakers.
void add_breaker(const std::string& breaker, const text::Tokenizer& tokenizer, std::vector<Ids>& out) {
  const text::EncodeOptions plain{.added = text::AddedTokens::kNone};
  Ids whole = tokenizer.encode(breaker, plain);
  if (!whole.empty()) out.push_back(std::move(whole));
  for (std::size_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (tokenizer.token_bytes(token).find(breaker) != std::string_view::npos) out.push_back({token});
  }
}

sampling::SamplingParams sampling_of(const GenerationRequest& request, const text::Tokenizer& tokenizer) {
  sampling::SamplingParams params = request.sampling;
  for (const std::string& word : request.bad_words)
    for (Ids& ids : spellings(word, tokenizer)) params.bad_words.push_back(std::move(ids));
  if (params.dry_multiplier > 0) {
    std::vector<std::string> breakers = request.dry_sequence_breakers;
    if (breakers.empty()) breakers = {"\n", ":", "\"", "*"};
    for (const std::string& breaker : breakers) add_breaker(breaker, tokenizer, params.dry_breakers);
  }
  if (request.best_of.value_or(request.n) > request.n)  // candidates are ranked by it
    params.logprobs = std::max(params.logprobs, 0);
  return params;
}

/// `fill_in` is set where the request has a suffix.
Prompt completion_prompt(const PromptInput& input, const GenerationRequest& request, const ModelText& model,
                         const std::optional<FillIn>& fill_in) {
  Prompt out;
  const auto* given = std::get_if<std::string>(&input);
  const bool add_special = request.add_special_tokens.value_or(true);
  if (request.echo) out.text = given != nullptr ? *given : model.tokenizer.decode(std::get<Ids>(input));
  if (fill_in) {
    FillInPrompt prompt = fill_in_prompt(*fill_in, input, request.suffix, add_special, model.tokenizer);
    out.ids = std::move(prompt.ids);
    out.text_begin = prompt.prefix_begin;
    out.text_count = prompt.prefix_count;
    return out;
  }
  out.ids =
      given != nullptr ? model.tokenizer.encode(*given, {.add_special = add_special}) : std::get<Ids>(input);
  out.text_count = out.ids.size();
  return out;
}

/// The tokens that the request's suffix needs.
Result<std::optional<FillIn>> fill_in_of(const GenerationRequest& request, const ModelText& model) {
  if (request.suffix.empty()) return std::optional<FillIn>();
  std::optional<FillIn> found = find_fill_in(model.tokenizer);
  if (!found)
    return unsupported("suffix",
                       "suffix is not supported: this model's vocabulary has no tokens for filling in");
  return found;
}

/// How many of its last tokens a prompt is cut to.
std::optional<std::int64_t> prompt_tokens_max(const GenerationRequest& request, std::int64_t max_seq_len) {
  if (request.truncate_prompt_tokens != -1) return request.truncate_prompt_tokens;
  const std::int64_t answer = std::clamp<std::int64_t>(request.max_tokens.value_or(1), 1, max_seq_len - 1);
  return max_seq_len - answer;
}

std::expected<void, ApiError> check_length(const Prompt& prompt, std::string_view field,
                                           std::int64_t max_seq_len) {
  const auto length = static_cast<std::int64_t>(prompt.ids.size());
  if (length == 0)
    return std::unexpected(
        ApiError({ErrorCode::kInvalidArgument, "the prompt has no tokens", std::string(field)}));
  if (length < max_seq_len) return {};
  ApiError error({ErrorCode::kInvalidArgument,
                  concat("this model's maximum context length is ", max_seq_len,
                         " tokens, but the prompt has ", length, " tokens; shorten it"),
                  std::string(field)});
  error.code = "context_length_exceeded";
  return std::unexpected(error);
}

Result<RenderedPrompt> rendered(const json::Array& messages, const RenderOptions& options,
                                const ModelText& model) {
  if (model.chat == nullptr)
    return unsupported("messages",
                       "this model has no chat template: use /v1/completions or start with --chat-template");
  Result<RenderedPrompt> prompt = model.chat->render(messages, options);
  if (!prompt && prompt.error().field.empty()) {
    Error error = std::move(prompt).error();
    error.field = "messages";
    return std::unexpected(std::move(error));
  }
  return prompt;
}

Ids ids_of(const RenderedPrompt& prompt, const RenderOptions& options, const ModelText& model) {
  return model.tokenizer.encode(prompt.text,
                                {.add_special = options.add_special_tokens, .untrusted = prompt.untrusted});
}

constexpr std::size_t kCompactAbove = 4;  // messages

/// A conversation on its way into a prompt.
struct Conversation {
  json::Array messages;
  RenderedPrompt prompt;
  Ids ids;
};

Result<Conversation> conversation_of(json::Array messages, const RenderOptions& options,
                                     const ModelText& model) {
  Conversation out{.messages = std::move(messages)};
  MET_ASSIGN(out.prompt, rendered(out.messages, options, model));
  out.ids = ids_of(out.prompt, options, model);
  return out;
}

/// What the request wants cleared.
Result<std::vector<AppliedEdit>> edit_context(const GenerationRequest& request, const RenderOptions& options,
                                              const ModelText& model, Conversation& conversation) {
  std::vector<AppliedEdit> applied;
  if (!request.context_edits) return applied;
  for (const ContextEdit& edit : *request.context_edits) {
    const std::int64_t tokens = std::ssize(conversation.ids);
    const std::int64_t fill = edit.trigger_counts_uses ? tool_uses(conversation.messages) : tokens;
    if (edit.kind == ContextEdit::Kind::kToolUses && fill <= edit.trigger) continue;
    EditedMessages shorter = edited(conversation.messages, edit);
    if (shorter.cleared == 0) continue;
    MET_ASSIGN(Conversation next, conversation_of(std::move(shorter.messages), options, model));
    const std::int64_t gain = tokens - std::ssize(next.ids);
    if (edit.kind == ContextEdit::Kind::kToolUses && gain < edit.clear_at_least) continue;
    conversation = std::move(next);
    applied.push_back({.kind = edit.kind, .cleared = shorter.cleared, .tokens = gain});
  }
  return applied;
}

/// The prompt of a chat. One that fills `compact_from` of the context or more is shortened, at each turn by the
/// stage that its fill calls for and never by one that was done (C1).
Result<RenderedPrompt> chat_prompt(const GenerationRequest& request, const ModelText& model,
                                   std::int64_t max_seq_len, double compact_from, Prepared& out) {
  MET_ASSIGN(const RenderOptions options, render_options(request, model));
  MET_ASSIGN(Conversation now, conversation_of(request.messages, options, model));
  MET_ASSIGN(out.edits, edit_context(request, options, model, now));
  for (int stage = 0; compact_from > 0 && stage <= static_cast<int>(CompactionStage::kLastFour); ++stage) {
    const double fill = static_cast<double>(now.ids.size()) / static_cast<double>(max_seq_len);
    if (fill < compact_from || now.messages.size() <= kCompactAbove) break;
    stage = std::max(stage, static_cast<int>(compaction_stage(fill)));
    json::Array shorter = compacted(now.messages, static_cast<CompactionStage>(stage), out.cuts);
    MET_ASSIGN(now, conversation_of(std::move(shorter), options, model));
  }
  out.prompts.push_back({.ids = std::move(now.ids)});
  return std::move(now.prompt);
}

}  // namespace

Result<Ids> prompt_ids(const GenerationRequest& request, const ModelText& model) {
  MET_ASSIGN(const RenderOptions options, render_options(request, model));
  return chat_ids(request.messages, options, model);
}

Result<PromptSize> prompt_size(const GenerationRequest& request, const ModelText& model) {
  MET_ASSIGN(const RenderOptions options, render_options(request, model));
  MET_ASSIGN(Conversation now, conversation_of(request.messages, options, model));
  PromptSize out{.before_edits = std::ssize(now.ids)};
  MET_TRY(edit_context(request, options, model, now));
  out.tokens = std::ssize(now.ids);
  return out;
}

Result<Ids> chat_ids(const json::Array& messages, const RenderOptions& options, const ModelText& model) {
  MET_ASSIGN(const RenderedPrompt prompt, rendered(messages, options, model));
  return ids_of(prompt, options, model);
}

std::expected<Prepared, ApiError> prepare(const GenerationRequest& request, const ModelText& model,
                                          std::int64_t max_seq_len, double compact_from) {
  Prepared out;
  const bool chat = request.prompts.empty();
  if (chat) {
    MET_ASSIGN(const RenderedPrompt prompt, chat_prompt(request, model, max_seq_len, compact_from, out));
    out.format = answer_format(request, model, prompt.text);
  }
  MET_ASSIGN(const std::optional<FillIn> fill_in, fill_in_of(request, model));
  for (const PromptInput& input : request.prompts)
    out.prompts.push_back(completion_prompt(input, request, model, fill_in));
  for (Prompt& prompt : out.prompts) {
    if (const auto most = prompt_tokens_max(request, max_seq_len); most && std::ssize(prompt.ids) > *most) {
      prompt.ids.erase(prompt.ids.begin(), prompt.ids.end() - *most);
      prompt.text_count = prompt.ids.size();
      if (request.echo) prompt.text = model.tokenizer.decode(prompt.ids);
    }
    const auto fits = check_length(prompt, chat ? "messages" : "prompt", max_seq_len);
    if (!fits) return std::unexpected(fits.error());
  }
  out.sampling = sampling_of(request, model.tokenizer);
  MET_ASSIGN(out.constraint, output_constraint(request, model, out.format));
  if (!out.sampling.allowed_token_ids.empty() && thinking_bound(request, model, out.format))
    for (const TokenId id : closing_ids(out.format.reasoning, model.tokenizer))
      out.sampling.allowed_token_ids.push_back(id);
  const bool completes = out.constraint != nullptr && out.constraint->completes();
  if (!request.ignore_eos || completes) out.eos_ids = model.eos_ids;
  if (request.ignore_eos && completes) out.constraint = eos_last(std::move(out.constraint), out.eos_ids);
  if (fill_in && !request.ignore_eos)
    out.eos_ids.insert(out.eos_ids.end(), fill_in->ends.begin(), fill_in->ends.end());
  return out;
}

}  // namespace met::api
