// The table of routes, and the way of a request through it.
#pragma once

#include <span>
#include <string_view>

#include "server/exchange.h"
#include "server/services.h"

namespace met::server {

using Handler = awaitable<void> (*)(Exchange&, Services&);

struct Route {
  std::string_view method;  ///< "*": GET, POST and DELETE
  std::string_view path;    ///< "{name}" is any one segment, a last "{name*}" anything, slashes too
  Handler handler;
  std::string_view summary;
  bool open = false;  ///< answered without a key, while loading and while draining
  api::Dialect dialect = api::Dialect::kOpenAi;
  bool page = false;  ///< of the web page: not there with --no-ui
};
// route_table.cpp
std::span<const Route> routes();

// routes.cpp
/// Route, method, key, draining, loading, handler: in this order, before any byte of a body is read.
awaitable<void> dispatch(Exchange& http, Services& met);

/// 503: the text threads have more to do than fits their queue.
api::ApiError text_pool_full();

// Handlers, by file.
// generate.cpp
awaitable<void> post_chat_completions(Exchange& http, Services& met);
awaitable<void> post_completions(Exchange& http, Services& met);
// stored_completions.cpp
awaitable<void> get_stored_completions(Exchange& http, Services& met);
awaitable<void> get_stored_completion(Exchange& http, Services& met);
awaitable<void> post_stored_completion(Exchange& http, Services& met);
awaitable<void> delete_stored_completion(Exchange& http, Services& met);
awaitable<void> get_stored_messages(Exchange& http, Services& met);
// responses.cpp
awaitable<void> post_responses(Exchange& http, Services& met);
awaitable<void> post_response_input_tokens(Exchange& http, Services& met);
awaitable<void> get_response(Exchange& http, Services& met);
awaitable<void> delete_response(Exchange& http, Services& met);
awaitable<void> post_cancel_response(Exchange& http, Services& met);
awaitable<void> get_response_input_items(Exchange& http, Services& met);
// conversations.cpp
awaitable<void> post_conversations(Exchange& http, Services& met);
awaitable<void> get_conversation(Exchange& http, Services& met);
awaitable<void> post_conversation(Exchange& http, Services& met);
awaitable<void> delete_conversation(Exchange& http, Services& met);
awaitable<void> get_conversation_items(Exchange& http, Services& met);
awaitable<void> post_conversation_items(Exchange& http, Services& met);
awaitable<void> get_conversation_item(Exchange& http, Services& met);
awaitable<void> delete_conversation_item(Exchange& http, Services& met);
// messages.cpp
awaitable<void> post_messages(Exchange& http, Services& met);
awaitable<void> post_count_tokens(Exchange& http, Services& met);
// probes.cpp
awaitable<void> get_health(Exchange& http, Services& met);
awaitable<void> get_alive(Exchange& http, Services& met);
awaitable<void> get_health_generate(Exchange& http, Services& met);
awaitable<void> get_memory(Exchange& http, Services& met);
awaitable<void> get_forward(Exchange& http, Services& met);
awaitable<void> get_hardware(Exchange& http, Services& met);
awaitable<void> get_events(Exchange& http, Services& met);
// prefix_probe.cpp
awaitable<void> post_prefix_probe(Exchange& http, Services& met);
// web_page.cpp
awaitable<void> get_page(Exchange& http, Services& met);
awaitable<void> get_page_file(Exchange& http, Services& met);
// openapi.cpp
awaitable<void> get_openapi(Exchange& http, Services& met);
// pages.cpp
awaitable<void> get_models(Exchange& http, Services& met);
awaitable<void> get_model(Exchange& http, Services& met);
awaitable<void> get_version(Exchange& http, Services& met);
awaitable<void> get_serve_config(Exchange& http, Services& met);
awaitable<void> get_metrics(Exchange& http, Services& met);
awaitable<void> post_tokenize(Exchange& http, Services& met);
awaitable<void> post_detokenize(Exchange& http, Services& met);

}  // namespace met::server
