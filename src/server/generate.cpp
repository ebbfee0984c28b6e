// The generating routes. A request becomes a Run: it drains engine events into wire bytes; the coroutine
// waits and sends.
#include <chrono>
#include <ctime>
#include <expected>
#include <optional>

#include "api/encoder.h"
#include "api/prepare.h"
#include "core/concat.h"
#include "server/choice.h"
#include "server/routes.h"

namespace met::server {
namespace {

using api::ApiError;
constexpr std::size_t kPromptsAtOnce = 16;  // of one request: the rest waits here, not in the engine's queue

enum class Api { kChat, kCompletion };

struct Work {
  api::GenerationRequest request;
  api::Prepared prepared;
};

/// What the engine is asked, the same for each prompt of the request.
scheduler::Request engine_request(const api::GenerationRequest& r, const Services& met,
                                  const api::Prepared& prepared) {
  scheduler::Request out;
  out.sampling = prepared.sampling;
  out.max_tokens =
      r.max_tokens.value_or(met.engine.max_seq_len());  // clamped to what the context leaves (R13)
  if (!r.ignore_eos) out.eos_ids = met.text->eos_ids;
  out.stop_ids = r.stop_token_ids;
  out.n = r.best_of.value_or(r.n);
  out.priority = r.priority;
  out.cache_salt = r.cache_salt;
  if (r.timeout_s) out.timeout_us = static_cast<std::int64_t>(*r.timeout_s * 1e6);
  const bool scores_prompt = r.echo && r.logprobs >= 0;
  out.prompt_logprobs = r.prompt_logprobs || scores_prompt;
  out.prompt_logprobs_top = std::max(r.prompt_logprobs.value_or(0), scores_prompt ? r.logprobs : 0);
  return out;
}

/// Work of a text thread: JSON, fields, template, ids.
std::expected<Work, ApiError> make_work(Api api_route, const std::string& body, const Services& met) {
  MET_ASSIGN(const json::Value parsed, json::parse(body));
  MET_ASSIGN(api::GenerationRequest request, api_route == Api::kChat
                                                 ? api::parse_chat(parsed, met.parse)
                                                 : api::parse_completion(parsed, met.parse));
  Work work{.request = std::move(request)};
  auto prepared = api::prepare(work.request, *met.text, met.engine.max_seq_len());
  if (!prepared) return std::unexpected(std::move(prepared).error());
  work.prepared = std::move(*prepared);
  return work;
}

/// One request while it is generated. Lives on the connection's loop.
class Run {
 public:
  Run(Exchange& http, Services& met, Api api_route, Work work)
      : http_(http),
        met_(met),
        work_(std::move(work)),
        common_(engine_request(work_.request, met, work_.prepared)) {
    common_.tenant = http.tenant();
    const bool chat = api_route == Api::kChat;
    api::AnswerHead head{.id = random_id(chat ? "chatcmpl-" : "cmpl-"),
                         .created = static_cast<std::int64_t>(std::time(nullptr)),
                         .model = work_.request.model,
                         .fingerprint = met.text->fingerprint};
    const auto make = chat ? (stream() ? api::chat_stream : api::chat_collect)
                           : (stream() ? api::completion_stream : api::completion_collect);
    encoder_ = make(std::move(head), work_.request, work_.prepared);
    for (const api::Prompt& prompt : work_.prepared.prompts) usage_.prompt_tokens += std::ssize(prompt.ids);
  }

  bool stream() const { return work_.request.stream; }
  bool done() const { return branches_.empty() && next_prompt_ == work_.prepared.prompts.size(); }
  const api::Usage& usage() const { return usage_; }
  void end(std::string& out) { encoder_->end(usage_, out); }

  /// Takes every event there is; the bytes that they give are appended to `out`. An error ends the whole
  /// request.
  std::optional<ApiError> drain(std::string& out) {
    if (auto error = submit_some(out)) return error;
    for (Branch& branch : branches_) {
      while (branch.open > 0) {
        const std::optional<scheduler::Event> event = branch.generation->poll();
        if (!event) break;
        if (auto error = take(branch, *event, out)) return error;
      }
    }
    std::erase_if(branches_, [](const Branch& branch) { return branch.open == 0; });
    return submit_some(out);
  }

 private:
  struct Branch {
    std::size_t prompt = 0;
    std::unique_ptr<scheduler::Generation> generation;
    std::vector<Choice> choices;
    int open = 0;
    std::int64_t cached = 0;
  };

  std::optional<ApiError> submit_some(std::string& out) {
    while (next_prompt_ < work_.prepared.prompts.size() && branches_.size() < kPromptsAtOnce) {
      Branch branch{.prompt = next_prompt_};
      for (int i = 0; i < common_.n; ++i) {
        auto choice =
            Choice::create(static_cast<int>(next_prompt_) * common_.n + i, work_.request, *met_.text);
        if (!choice) return ApiError(choice.error());
        branch.choices.push_back(std::move(*choice));
      }
      if (common_.max_tokens == 0 && !common_.prompt_logprobs) {
        for (Choice& choice : branch.choices) emit(choice.finish(scheduler::FinishReason::kLength), out);
        ++next_prompt_;
        continue;
      }
      scheduler::Request request = common_;
      request.prompt = work_.prepared.prompts[next_prompt_].ids;
      auto generation = met_.engine.submit(std::move(request));
      if (!generation) {
        // The engine is full, of our own earlier prompts too: those end first.
        if (generation.error().code == ErrorCode::kUnavailable && !branches_.empty()) return std::nullopt;
        return ApiError(generation.error());
      }
      branch.generation = std::move(*generation);
      branch.generation->on_ready(http_.wake().notifier());
      branch.open = common_.n;
      branches_.push_back(std::move(branch));
      ++next_prompt_;
    }
    return std::nullopt;
  }

  std::optional<ApiError> take(Branch& branch, const scheduler::Event& event, std::string& out) {
    using Kind = scheduler::Event::Kind;
    Choice& choice = branch.choices[static_cast<std::size_t>(event.choice)];
    switch (event.kind) {
      case Kind::kAccepted:
        break;
      case Kind::kProgress:
        set_cached(branch, event.cached);
        break;
      case Kind::kPromptLogprobs:
        encoder_->prompt(
            branch.prompt,
            prompt_entries(work_.prepared.prompts[branch.prompt].ids, event.logprobs, *met_.text), out);
        break;
      case Kind::kTokens: {
        if (choice.ended()) break;
        const std::int64_t before = choice.completion_tokens();
        const std::int64_t reasoned = choice.reasoning_tokens();
        const std::vector<api::AnswerPart> parts = choice.push(event);
        usage_.completion_tokens += choice.completion_tokens() - before;
        usage_.reasoning_tokens += choice.reasoning_tokens() - reasoned;
        emit(parts, out);
        if (choice.stopped())
          branch.generation->stop_at(event.choice, choice.completion_tokens(),
                                     scheduler::FinishReason::kStopText);
        break;
      }
      case Kind::kFinished:
        set_cached(branch, event.cached);
        if (!choice.ended()) emit(choice.finish(event.reason), out);
        --branch.open;
        break;
      case Kind::kCancelled:
        if (!choice.ended())
          return ApiError({ErrorCode::kUnavailable,
                           met_.life.draining ? "the server is shutting down" : "the request was cancelled",
                           {}});
        --branch.open;
        break;
      case Kind::kFailed:
        return ApiError(event.error);
    }
    return std::nullopt;
  }

  void set_cached(Branch& branch, std::int64_t cached) {
    if (cached <= branch.cached) return;
    usage_.cached_tokens += cached - branch.cached;
    branch.cached = cached;
  }

  void emit(const std::vector<api::AnswerPart>& parts, std::string& out) {
    if (parts.empty()) return;
    if (!begun_) encoder_->begin(out);
    begun_ = true;
    for (const api::AnswerPart& part : parts) encoder_->part(part, usage_, out);
  }

  Exchange& http_;
  Services& met_;
  Work work_;
  scheduler::Request common_;  // without a prompt
  std::unique_ptr<api::Encoder> encoder_;
  std::vector<Branch> branches_;
  std::size_t next_prompt_ = 0;
  api::Usage usage_;
  bool begun_ = false;
};

/// Names for x-met-ignored-fields; what a header cannot hold becomes '?'.
std::string ignored_names(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (out.size() > 512) break;
    if (!out.empty()) out += ", ";
    for (const char c : name.substr(0, 64)) out += c > 0x20 && c < 0x7F && c != ',' ? c : '?';
  }
  return out;
}

/// Waits, drains and sends until the run ends or the client leaves. The run's handles cancel when it goes
/// (R6).
awaitable<void> serve_run(Exchange& http, Services& met, Run& run) {
  const auto keepalive = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(met.settings.sse_keepalive_s));
  std::string out;
  bool streaming = false;
  for (;;) {
    const std::optional<ApiError> error = run.drain(out);
    http.set_tokens(run.usage().completion_tokens);
    if (error && !streaming) {
      co_await http.fail(*error);
      co_return;
    }
    if (error) api::stream_error(*error, out);
    const bool last = error || run.done();
    if (last && !error) run.end(out);
    if (last && !run.stream()) {
      Response response;
      response.body = std::move(out);
      co_await http.respond(std::move(response));
      co_return;
    }
    if (run.stream() && !out.empty()) {
      if (!streaming) http.begin_stream();
      streaming = true;
      const bool here = co_await http.send(out);
      out.clear();
      if (here && last) co_await http.end_stream();
      if (!here || last) break;
    }
    const bool notified = co_await http.wake().wait(Clock::now() + keepalive);
    if (http.gone()) break;
    if (!notified && run.stream()) out = ": keep-alive\n\n";
  }
  if (http.gone()) ++met.counters.disconnects;
}

awaitable<void> generate(Exchange& http, Services& met, Api api_route) {
  auto body = co_await http.read_body();
  if (!body) {
    co_await http.fail(body.error());
    co_return;
  }
  http.watch();
  auto job = [api_route, &met, text = std::move(*body)] { return make_work(api_route, text, met); };
  auto work = co_await met.text_pool.run(std::move(job));
  if (!work) {
    const ApiError busy = text_pool_full();
    co_await http.fail(busy);
    co_return;
  }
  if (!work->has_value()) {
    co_await http.fail(work->error());
    co_return;
  }
  if (http.gone()) co_return;
  const std::string ignored = ignored_names((*work)->request.ignored);
  if (!ignored.empty()) http.add_header("X-Met-Ignored-Fields", ignored);
  Run run(http, met, api_route, std::move(**work));
  co_await serve_run(http, met, run);
}

}  // namespace

awaitable<void> post_chat_completions(Exchange& http, Services& met) {
  co_await generate(http, met, Api::kChat);
}
awaitable<void> post_completions(Exchange& http, Services& met) {
  co_await generate(http, met, Api::kCompletion);
}

}  // namespace met::server
