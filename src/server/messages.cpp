// Anthropic's Messages.
#include "api/anthropic.h"
#include "server/admission.h"
#include "server/routes.h"
#include "server/run.h"

namespace met::server {

awaitable<void> post_messages(Exchange& http, Services& met) {
  auto job = [&met](const std::string& body) -> std::expected<Work, api::ApiError> {
    MET_ASSIGN(const json::Value parsed, json::parse(body));
    MET_ASSIGN(api::GenerationRequest request, api::parse_messages(parsed, met.parse));
    return make_work(std::move(request), met);
  };
  auto work = co_await on_text_thread(http, met, std::move(job));
  if (!work) co_return;
  tell_of(http, met, *work);
  const bool admitted = co_await admit_work(http, met, *work);
  if (!admitted) co_return;
  const auto make = work->request.stream ? api::messages_stream : api::messages_collect;
  auto encoder = make(new_head("msg_", work->request, met), work->request, work->prepared);
  Run run(met, http.wake(), http.tenant(), std::move(*work), std::move(encoder));
  co_await serve_run(http, met, run);
}

awaitable<void> post_count_tokens(Exchange& http, Services& met) {
  auto job = [&met](const std::string& body) -> std::expected<json::Object, api::ApiError> {
    MET_ASSIGN(const json::Value parsed, json::parse(body));
    MET_ASSIGN(const api::GenerationRequest request, api::parse_count_tokens(parsed, met.parse));
    MET_ASSIGN(const api::PromptSize size, api::prompt_size(request, *met.text));
    json::Object out{{"input_tokens", size.tokens}};
    if (request.context_edits)
      out.append("context_management", json::Object{{"original_input_tokens", size.before_edits}});
    return out;
  };
  auto count = co_await on_text_thread(http, met, std::move(job));
  if (!count) co_return;
  Response response;
  response.body = json::write(*count);
  co_await http.respond(std::move(response));
}

}  // namespace met::server
