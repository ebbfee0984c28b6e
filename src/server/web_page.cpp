// The web page: static files with an ETag. They ask nothing of any other host, and the policy holds them to it.
#include "server/web_page.h"

#include "core/concat.h"
#include "server/routes.h"

namespace met::server {
namespace {

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  return "image/svg+xml";
}

awaitable<void> send_file(Exchange& http, std::string_view name) {
  for (const EmbeddedFile& file : page_files()) {
    if (file.name != name) continue;
    const std::string tag = concat("\"", file.digest.substr(0, 32), "\"");
    const std::string_view known = http.head().header("if-none-match");
    Response response{.type = std::string(type_of(name))};
    if (known == "*" || known.find(tag) != std::string_view::npos) {
      response.status = 304;
    } else {
      response.body = std::string(file.bytes);
    }
    response.headers.emplace_back("ETag", tag);
    response.headers.emplace_back("Cache-Control", "no-cache");
    response.headers.emplace_back("Content-Security-Policy", std::string(kPolicy));
    response.headers.emplace_back("X-Content-Type-Options", "nosniff");
    response.headers.emplace_back("Referrer-Policy", "no-referrer");
    co_await http.respond(std::move(response));
    co_return;
  }
  api::ApiError error(
      {ErrorCode::kNotFound, concat("the web page has no file named ", name.substr(0, 200)), {}});
  error.code = "file_not_found";
  co_await http.fail(error);
}

}  // namespace

awaitable<void> get_page(Exchange& http, Services&) { co_await send_file(http, "index.html"); }

awaitable<void> get_page_file(Exchange& http, Services&) {
  const std::string name = http.parameters()[0];
  co_await send_file(http, name);
}

}  // namespace met::server
