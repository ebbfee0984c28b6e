#include "server/run.h"

#include <chrono>
#include <ctime>

#include "api/lower.h"
#include "core/concat.h"
#include "server/routes.h"

namespace met::server {
namespace {

using api::ApiError;
constexpr std::size_t kPromptsAtOnce = 16;  // of one request: the rest waits here, not in the engine's queue
constexpr std::size_t kIgnoredBytesMax = 512;

/// What the engine is asked, the same for each prompt of the request.
scheduler::Request engine_request(const api::GenerationRequest& r, const Services& met,
                                  const api::Prepared& prepared) {
  scheduler::Request out;
  out.sampling = prepared.sampling;
  out.max_tokens =
      r.max_tokens.value_or(met.engine.max_seq_len());  // clamped to what the context leaves (R13)
  out.constraint = prepared.constraint;
  out.eos_ids = prepared.eos_ids;
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

std::string percent_encoded(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7F && c != ',' && c != '%') {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
  }
  return out;
}

}  // namespace

Run::Run(Services& met, Wake& wake, std::uint64_t tenant, Work work, std::unique_ptr<api::Encoder> encoder)
    : met_(met),
      wake_(wake),
      work_(std::move(work)),
      common_(engine_request(work_.request, met, work_.prepared)),
      encoder_(std::move(encoder)) {
  common_.tenant = tenant;
  for (const api::Prompt& prompt : work_.prepared.prompts) usage_.prompt_tokens += std::ssize(prompt.ids);
}

std::optional<ApiError> Run::drain(std::string& out) {
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

void Run::end(std::string& out) {
  begin(out);
  encoder_->end(usage_, out);
}

void Run::fail(const api::ApiError& error, std::string& out) { encoder_->fail(error, out); }

awaitable<std::optional<ApiError>> Run::keep() {
  if (!keep_) co_return std::nullopt;
  co_return co_await keep_();
}

void Run::keepalive(std::string& out) {
  begin(out);
  encoder_->keepalive(out);
}

void Run::read_ahead_in(Wake& wake, const void* frame) const {
  const Branch& branch = branches_.front();
  const auto* const own = reinterpret_cast<const char*>(&encoder_);  // and what follows
  wake.works_with(
      {{{.at = frame, .bytes = 256},
        {.at = own, .bytes = static_cast<std::size_t>(reinterpret_cast<const char*>(this + 1) - own)},
        {.at = encoder_.get(), .bytes = 256},
        {.at = &branch, .bytes = sizeof branch},
        {.at = branch.choices.data(), .bytes = sizeof(Choice)},
        {.at = branch.generation.get(), .bytes = 128}}});
}

std::optional<ApiError> Run::submit_some(std::string& out) {
  while (next_prompt_ < work_.prepared.prompts.size() && branches_.size() < kPromptsAtOnce) {
    Branch branch{.prompt = next_prompt_};
    for (int i = 0; i < common_.n; ++i) {
      auto choice = Choice::create(static_cast<int>(next_prompt_) * common_.n + i, work_.request, *met_.text,
                                   work_.prepared);
      if (!choice) return ApiError(choice.error());
      branch.choices.push_back(std::move(*choice));
    }
    if (common_.max_tokens == 0 && !common_.prompt_logprobs) {
      for (Choice& choice : branch.choices) emit(choice.finish(scheduler::FinishReason::kLength), out);
      ++next_prompt_;
      continue;
    }
    scheduler::Request request = common_;
    const std::vector<api::TokenId>& ids = work_.prepared.prompts[next_prompt_].ids;
    request.prompt = ids;
    auto generation = met_.engine.submit(std::move(request));
    if (!generation) {
      // The engine is full, of our own earlier prompts too: those end first.
      if (generation.error().code == ErrorCode::kUnavailable && !branches_.empty()) return std::nullopt;
      // The engine's count of choices is the request's best_of where it has one.
      constexpr api::Renamed kBestOf[] = {{"n", "best_of"}};
      return ApiError(work_.request.best_of ? api::in_own_terms(std::move(generation).error(), kBestOf)
                                            : std::move(generation).error());
    }
    met_.recent_prompts.add(common_.tenant, ids);
    branch.generation = std::move(*generation);
    branch.generation->on_ready(wake_.notifier());
    branch.open = common_.n;
    branches_.push_back(std::move(branch));
    ++next_prompt_;
  }
  return std::nullopt;
}

std::optional<ApiError> Run::take(Branch& branch, const scheduler::Event& event, std::string& out) {
  using EventKind = scheduler::Event::Kind;
  Choice& choice = branch.choices[static_cast<std::size_t>(event.choice)];
  if (event.kind != EventKind::kAccepted && event.kind != EventKind::kCancelled &&
      event.kind != EventKind::kFailed)
    count_use(branch);
  switch (event.kind) {
    case EventKind::kAccepted:
      break;
    case EventKind::kProgress:
      set_cached(branch, event.cached);
      break;
    case EventKind::kPromptLogprobs:
      encoder_->prompt(branch.prompt,
                       prompt_entries(work_.prepared.prompts[branch.prompt].ids, event.logprobs, *met_.text),
                       out);
      break;
    case EventKind::kTokens:
      if (!choice.ended()) take_tokens(branch, event, out);
      break;
    case EventKind::kFinished:
      set_cached(branch, event.cached);
      if (!choice.ended()) emit(choice.finish(event.reason), out);
      --branch.open;
      break;
    case EventKind::kCancelled:
      if (!choice.ended())
        return ApiError({ErrorCode::kUnavailable,
                         met_.life.draining ? "the server is shutting down" : "the request was cancelled",
                         {}});
      --branch.open;
      break;
    case EventKind::kFailed:
      return ApiError(event.error);
  }
  return std::nullopt;
}

void Run::take_tokens(Branch& branch, const scheduler::Event& event, std::string& out) {
  Choice& choice = branch.choices[static_cast<std::size_t>(event.choice)];
  const std::int64_t before = choice.completion_tokens();
  const std::int64_t reasoned = choice.reasoning_tokens();
  const std::vector<api::AnswerPart> parts = choice.push(event);
  usage_.completion_tokens += choice.completion_tokens() - before;
  usage_.total_s = std::chrono::duration<double>(Clock::now() - submitted_).count();
  if (usage_.first_token_s == 0) usage_.first_token_s = usage_.total_s;
  usage_.reasoning_tokens += choice.reasoning_tokens() - reasoned;
  work_.reservation.use(prompt_used_ + usage_.completion_tokens);
  emit(parts, out);
  if (choice.stopped())
    branch.generation->stop_at(event.choice, choice.completion_tokens(), choice.stop_reason());
}

void Run::count_use(Branch& branch) {
  if (branch.worked) return;
  branch.worked = true;
  prompt_used_ += std::ssize(work_.prepared.prompts[branch.prompt].ids);
  work_.reservation.use(prompt_used_ + usage_.completion_tokens);
}

void Run::set_cached(Branch& branch, std::int64_t cached) {
  if (cached <= branch.cached) return;
  usage_.cached_tokens += cached - branch.cached;
  branch.cached = cached;
}

void Run::begin(std::string& out) {
  if (begun_) return;
  begun_ = true;
  encoder_->begin(usage_, out);
}

void Run::emit(const std::vector<api::AnswerPart>& parts, std::string& out) {
  if (parts.empty()) return;
  begin(out);
  for (const api::AnswerPart& part : parts) {
    if (part.kind == api::AnswerPart::Kind::kCallEnd)
      ++(part.complete ? met_.counters.calls_complete : met_.counters.calls_incomplete);
    encoder_->part(part, usage_, out);
  }
}

awaitable<bool> serve_run(Exchange& http, Services& met, Run& run) {
  const auto keepalive = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(met.settings.sse_keepalive_s));
  std::string out;
  bool streaming = false;
  bool ended = false;
  for (;;) {
    const std::optional<ApiError> error = run.drain(out);
    http.set_tokens(run.usage().completion_tokens);
    if (error && !streaming) {
      co_await http.fail(*error);
      co_return false;
    }
    const std::size_t before = out.size();
    if (error) run.fail(*error, out);
    const bool last = error || run.done();
    ended = last && !error;
    if (ended) run.end(out);
    std::optional<ApiError> lost;  // an end that is acknowledged is stored
    if (last) lost = co_await run.keep();
    if (ended && lost) {
      ended = false;
      if (!run.stream() || !streaming) {
        co_await http.fail(*lost);
        co_return false;
      }
      out.resize(before);
      run.fail(*lost, out);
    }
    if (last && !run.stream()) {
      Response response;
      response.body = std::move(out);
      co_await http.respond(std::move(response));
      co_return true;
    }
    if (run.stream() && !out.empty()) {
      if (!streaming) {
        http.begin_stream();
        if (!last) run.read_ahead_in(http.wake(), &out);
      }
      streaming = true;
      http.offer(out);
      out.clear();
      if (last && !http.gone()) co_await http.end_stream();
      if (last || http.gone()) break;
    }
    const bool notified = co_await http.wake().wait(Clock::now() + keepalive);
    if (http.behind()) co_await http.flush();
    if (http.gone()) break;
    if (!notified && run.stream()) run.keepalive(out);
  }
  if (http.gone()) ++met.counters.disconnects;
  co_return ended;
}

std::expected<Work, ApiError> make_work(api::GenerationRequest request, const Services& met) {
  Work work{.request = std::move(request)};
  auto prepared = api::prepare(work.request, *met.text, met.engine.max_seq_len(), met.settings.auto_compact);
  if (!prepared) return std::unexpected(std::move(prepared).error());
  work.prepared = std::move(*prepared);
  return work;
}

api::AnswerHead new_head(std::string_view prefix, const api::GenerationRequest& request,
                         const Services& met) {
  return {.id = random_id(prefix),
          .created = unix_now(),
          .model = request.model,
          .fingerprint = met.text->fingerprint};
}

void tell_of(Exchange& http, Services& met, const Work& work) {
  if (work.prepared.cuts.any()) {
    ++met.counters.compactions;
    http.add_header("X-Met-Compacted", work.prepared.cuts.text());
  }
  std::string list;
  for (const std::string& name : work.request.ignored) {
    std::string next = percent_encoded(name);
    const std::size_t separator = list.empty() ? 0 : 2;
    if (list.size() + separator + next.size() > kIgnoredBytesMax) continue;
    list += (list.empty() ? "" : ", ") + next;
  }
  if (!list.empty()) http.add_header("X-Met-Ignored-Fields", std::move(list));
}

std::int64_t unix_now() { return static_cast<std::int64_t>(std::time(nullptr)); }

std::string rfc3339(std::int64_t unix_s) {
  const auto time = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace met::server
