// OpenAI's chat and completions.
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
  name_ignored(http, work->request.ignored);
  const bool chat = route == Api::kChat;
  const bool stream = work->request.stream;
  const auto make = chat ? (stream ? api::chat_stream : api::chat_collect)
                         : (stream ? api::completion_stream : api::completion_collect);
  auto encoder =
      make(new_head(chat ? "chatcmpl-" : "cmpl-", work->request, met), work->request, work->prepared);
  Run run(met, http.wake(), http.tenant(), std::move(*work), std::move(encoder));
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
