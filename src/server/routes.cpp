#include "server/routes.h"

#include <algorithm>

#include "core/concat.h"
#include "server/admission.h"

namespace met::server {
namespace {

/// Splits off what stands before the next slash.
std::string_view take_segment(std::string_view& path) {
  const std::size_t slash = path.find('/');
  const std::string_view segment = path.substr(0, slash);
  path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  return segment;
}

std::string decoded(std::string_view text) { return decode_segment(text).value_or(std::string(text)); }

/// The path's values for the pattern's open places; nothing: it does not match.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view path) {
  std::vector<std::string> out;
  for (;;) {
    const bool more_pattern = pattern.find('/') != std::string_view::npos;
    const bool more_path = path.find('/') != std::string_view::npos;
    if (pattern.starts_with('{') && pattern.ends_with("*}")) {
      if (path.empty()) return std::nullopt;
      out.push_back(decoded(path));
      return out;
    }
    const std::string_view want = take_segment(pattern);
    const std::string_view have = take_segment(path);
    if (want.starts_with('{')) {
      if (have.empty()) return std::nullopt;
      out.push_back(decoded(have));
    } else if (want != have) {
      return std::nullopt;
    }
    if (more_pattern != more_path) return std::nullopt;
    if (!more_pattern) return out;
  }
}

bool method_is(const Route& route, std::string_view method) {
  if (route.method == "*")
    return method == "GET" || method == "HEAD" || method == "POST" || method == "DELETE";
  return route.method == method || (route.method == "GET" && method == "HEAD");
}

/// Origins of pages on this very machine.
bool loopback_origin(std::string_view origin) {
  for (const std::string_view host : {"http://localhost", "http://127.0.0.1", "http://[::1]",
                                      "https://localhost", "https://127.0.0.1", "https://[::1]"}) {
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
  http.add_header("Access-Control-Expose-Headers",
                  "x-request-id, request-id, openai-processing-ms, retry-after, x-met-ignored-fields, "
                  "x-met-compacted, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
                  "x-ratelimit-reset-requests, "
                  "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens");
}

/// Every method of the path, for Allow; empty: no such path.
std::string methods_of(std::string_view path, bool with_page) {
  std::string out;
  for (const Route& route : routes()) {
    if ((route.page && !with_page) || !match(route.path, path)) continue;
    if (!out.empty()) out += ", ";
    if (route.method == "*") {
      out += "GET, HEAD, POST, DELETE";
    } else {
      out += route.method == "GET" ? std::string("GET, HEAD") : std::string(route.method);
    }
  }
  return out.empty() ? out : out + ", OPTIONS";
}

/// What a page may send: what it asks for, since clients name headers of their own and none of them opens
/// anything here; else those that our routes read.
std::string headers_for(const Head& head) {
  constexpr std::size_t kLengthMax = 4096;
  const std::string_view asked = head.header("access-control-request-headers");
  const bool names = std::ranges::all_of(asked, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ',' || c == ' ';
  });
  if (!asked.empty() && asked.size() <= kLengthMax && names) return std::string(asked);
  return "authorization, content-type, x-api-key, x-request-id, openai-beta, openai-organization, "
         "openai-project, anthropic-version, anthropic-beta, anthropic-dangerous-direct-browser-access, "
         "last-event-id";
}

awaitable<void> answer_options(Exchange& http, const std::string& allow) {
  Response response{.status = 204};
  response.headers.emplace_back("Allow", allow);
  if (!http.head().header("access-control-request-method").empty()) {
    response.headers.emplace_back("Access-Control-Allow-Methods", allow);
    response.headers.emplace_back("Access-Control-Allow-Headers", headers_for(http.head()));
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

api::ApiError text_pool_full() {
  return Error{ErrorCode::kUnavailable, "too many requests wait to be tokenized", {}};
}

awaitable<void> dispatch(Exchange& http, Services& met) {
  ++met.counters.requests;
  add_cors(http, met);
  const Head& head = http.head();
  const std::string allow =
      head.path == "*" ? std::string("GET, HEAD, POST, OPTIONS") : methods_of(head.path, !met.settings.no_ui);
  if (head.method == "OPTIONS" && !allow.empty()) {
    co_await answer_options(http, allow);
    co_return;
  }
  // Of what no route of ours serves, Anthropic's clients read the error too.
  const bool anthropic = !head.header("anthropic-version").empty();
  if (anthropic) http.set_dialect(api::Dialect::kAnthropic);
  const Route* found = nullptr;
  for (const Route& route : routes()) {
    if (found != nullptr) break;
    if (route.page && met.settings.no_ui) continue;
    auto parameters = match(route.path, head.path);
    if (!parameters) continue;
    if (route.method != "*" || route.dialect == api::Dialect::kAnthropic) http.set_dialect(route.dialect);
    if (!method_is(route, head.method)) continue;
    http.set_parameters(std::move(*parameters));
    found = &route;
  }
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
    if (!met.life.ready) {
      ++met.counters.refused;
      api::ApiError loading({ErrorCode::kUnavailable, "the model is still loading", {}});
      loading.code = "model_loading";
      co_await http.fail(loading);
      co_return;
    }
  }
  if (!found->open && head.path.starts_with("/v1/")) {
    const bool admitted = co_await admit_request(http, met);
    if (!admitted) co_return;
  }
  co_await found->handler(http, met);
}

}  // namespace met::server
