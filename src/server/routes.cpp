#include "server/routes.h"

#include "core/concat.h"

namespace met::server {
namespace {

awaitable<void> refuse_unsupported(Exchange& http, Services&) {
  api::ApiError error;
  error.status = 501;
  error.type = api::error_type(501);
  error.message = concat(http.head().method, " ", http.head().path, " is not supported by this server");
  error.code = "not_supported";
  co_await http.fail(error);
}

constexpr Route kRoutes[] = {
    {"POST", "/v1/chat/completions", post_chat_completions},
    {"POST", "/v1/completions", post_completions},
    {"GET", "/v1/chat/completions/*", get_stored_completion},
    {"GET", "/v1/models", get_models},
    {"GET", "/v1/models/*", get_model},
    {"POST", "/tokenize", post_tokenize},
    {"POST", "/detokenize", post_detokenize},
    {"GET", "/health", get_health, /*open=*/true},
    {"GET", "/health/live", get_alive, /*open=*/true},
    {"GET", "/ping", get_health, /*open=*/true},
    {"GET", "/version", get_version, /*open=*/true},
    {"GET", "/metrics", get_metrics, /*open=*/true},
    {"GET", "/serve-config", get_serve_config},
    // routes of the public APIs that are not served: an answer in their own error shape, not a missing page
    {"POST", "/v1/responses", refuse_unsupported},
    {"GET", "/v1/responses/*", refuse_unsupported},
    {"POST", "/v1/conversations", refuse_unsupported},
    {"GET", "/v1/conversations/*", refuse_unsupported},
    {"POST", "/v1/messages", refuse_unsupported},
    {"POST", "/v1/messages/count_tokens", refuse_unsupported},
    {"POST", "/v1/lora/active", refuse_unsupported},
    {"POST", "/v1/lora/load", refuse_unsupported},
    {"POST", "/v1/embeddings", refuse_unsupported},
    {"POST", "/v1/rerank", refuse_unsupported},
    {"POST", "/v1/moderations", refuse_unsupported},
    {"POST", "/v1/audio/transcriptions", refuse_unsupported},
    {"POST", "/v1/audio/translations", refuse_unsupported},
    {"POST", "/v1/audio/speech", refuse_unsupported},
    {"POST", "/v1/images/generations", refuse_unsupported},
    {"POST", "/v1/images/edits", refuse_unsupported},
    {"POST", "/v1/images/variations", refuse_unsupported},
    {"GET", "/v1/files", refuse_unsupported},
    {"POST", "/v1/files", refuse_unsupported},
    {"GET", "/v1/files/*", refuse_unsupported},
    {"GET", "/v1/batches", refuse_unsupported},
    {"POST", "/v1/batches", refuse_unsupported},
    {"GET", "/v1/batches/*", refuse_unsupported},
    {"GET", "/v1/fine_tuning/jobs", refuse_unsupported},
    {"POST", "/v1/fine_tuning/jobs", refuse_unsupported},
};

bool matches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with('*')) return pattern == path;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

bool method_is(const Route& route, std::string_view method) {
  return route.method == method || (route.method == "GET" && method == "HEAD");
}

/// Origins of pages on this very machine.
bool loopback_origin(std::string_view origin) {
  for (const std::string_view host :
       {"http://localhost", "http://127.0.0.1", "http://[::1]", "https://localhost"}) {
    if (!origin.starts_with(host)) continue;
    const std::string_view rest = origin.substr(host.size());
    if (rest.empty() || rest.front() == ':') return true;
  }
  return false;
}

void add_cors(Exchange& http, const Services& met) {
  const std::string_view origin = http.head().header("origin");
  if (origin.empty()) return;
  bool allowed = loopback_origin(origin);
  for (const std::string& entry : met.settings.cors_origin) allowed |= entry == "*" || entry == origin;
  http.add_header("Vary", "Origin");
  if (!allowed) return;
  http.add_header("Access-Control-Allow-Origin", std::string(origin));
  http.add_header("Access-Control-Expose-Headers", "x-request-id, openai-processing-ms, retry-after");
}

/// Every method of the path, for Allow; empty: no such path.
std::string methods_of(std::string_view path) {
  std::string out;
  for (const Route& route : kRoutes) {
    if (!matches(route.path, path)) continue;
    if (!out.empty()) out += ", ";
    out += route.method == "GET" ? std::string("GET, HEAD") : std::string(route.method);
  }
  return out.empty() ? out : out + ", OPTIONS";
}

awaitable<void> answer_options(Exchange& http, const std::string& allow) {
  Response response{.status = 204};
  response.headers.emplace_back("Allow", allow);
  if (!http.head().header("access-control-request-method").empty()) {
    response.headers.emplace_back("Access-Control-Allow-Methods", allow);
    response.headers.emplace_back("Access-Control-Allow-Headers",
                                  "authorization, content-type, x-api-key, x-request-id, openai-beta, "
                                  "openai-organization, openai-project, anthropic-version, anthropic-beta");
    response.headers.emplace_back("Access-Control-Max-Age", "600");
  }
  co_await http.respond(std::move(response));
}

api::ApiError no_route(const Exchange& http) {
  api::ApiError error({ErrorCode::kNotFound,
                       concat("there is no route ", http.head().method, " ", http.head().path.substr(0, 200)),
                       {}});
  error.code = "route_not_found";
  return error;
}

api::ApiError wrong_method(const Exchange& http) {
  api::ApiError error;
  error.status = 405;
  error.type = api::error_type(405);
  error.message =
      concat("the method ", http.head().method, " is not allowed on ", http.head().path.substr(0, 200));
  error.code = "method_not_allowed";
  return error;
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

api::ApiError text_pool_full() {
  return Error{ErrorCode::kUnavailable, "too many requests wait to be tokenized", {}};
}

awaitable<void> dispatch(Exchange& http, Services& met) {
  ++met.counters.requests;
  add_cors(http, met);
  const Head& head = http.head();
  const std::string allow =
      head.path == "*" ? std::string("GET, HEAD, POST, OPTIONS") : methods_of(head.path);
  if (head.method == "OPTIONS" && !allow.empty()) {
    co_await answer_options(http, allow);
    co_return;
  }
  const Route* found = nullptr;
  for (const Route& route : kRoutes)
    if (found == nullptr && matches(route.path, head.path) && method_is(route, head.method)) found = &route;
  const auto tenant = met.auth.tenant(head);
  if (found == nullptr) {
    ++met.counters.refused;
    if (!allow.empty()) http.add_header("Allow", allow);
    const api::ApiError error = allow.empty() ? no_route(http) : wrong_method(http);
    co_await http.fail(error);
    co_return;
  }
  if (!found->open) {
    if (!tenant) {
      ++met.counters.refused;
      co_await http.fail(tenant.error());
      co_return;
    }
    http.set_tenant(*tenant);
    if (met.life.draining) {
      ++met.counters.refused;
      const api::ApiError draining({ErrorCode::kUnavailable, "the server is shutting down", {}});
      co_await http.fail(draining);
      co_return;
    }
  }
  co_await found->handler(http, met);
}

}  // namespace met::server
