// OpenAI's chat and completions.
#include "server/admission.h"
#include "server/recorder.h"
#include "server/routes.h"
#include "server/run.h"

namespace met::server {
namespace {

enum class Api { kChat, kCompletion };

std::expected<Work, api::ApiError> parse(Api route, const std::string& body, const Services& met) {
  MET_ASSIGN(const json::Value parsed, json::parse(body));
  MET_ASSIGN(api::GenerationRequest request, route == Api::kChat ? api::parse_chat(parsed, met.parse)
                                                                 : api::parse_completion(parsed, met.parse));
  return make_work(std::move(request), met);
}

awaitable<void> generate(Exchange& http, Services& met, Api route) {
  auto job = [route, &met](const std::string& body) { return parse(route, body, met); };
  auto work = co_await on_text_thread(http, met, std::move(job));
  if (!work) co_return;
  tell_of(http, met, *work);
  const bool admitted = co_await admit_work(http, met, *work);
  if (!admitted) co_return;
  const bool chat = route == Api::kChat;
  const bool stream = work->request.stream;
  const auto make = chat ? (stream ? api::chat_stream : api::chat_collect)
                         : (stream ? api::completion_stream : api::completion_collect);
  const api::AnswerHead head = new_head(chat ? "chatcmpl-" : "cmpl-", work->request, met);
  auto encoder = make(head, work->request, work->prepared);
  if (!work->request.store) {
    Run run(met, http.wake(), http.tenant(), std::move(*work), std::move(encoder));
    co_await serve_run(http, met, run);
    co_return;
  }
  auto whole = stream ? api::chat_collect(head, work->request, work->prepared) : nullptr;
  auto recorder = std::make_unique<Recorder>(std::move(encoder), std::move(whole));
  const Recorder* const view = recorder.get();
  Run run(met, http.wake(), http.tenant(), std::move(*work), std::move(recorder));
  run.at_end([view, &run, &http, &met] { return keep_completion(*view, run.request(), http.tenant(), met); });
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
