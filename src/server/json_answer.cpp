#include "server/json_answer.h"

#include "core/concat.h"

namespace met::server {

awaitable<void> answer(Exchange& http, JsonResult result) {
  if (!result) {
    co_await http.fail(result.error());
    co_return;
  }
  co_await answer_text(http, json::write(*result));
}

awaitable<void> answer_text(Exchange& http, std::expected<std::string, api::ApiError> text) {
  if (!text) {
    co_await http.fail(text.error());
    co_return;
  }
  Response response;
  response.body = std::move(*text);
  co_await http.respond(std::move(response));
}

api::ApiError no_object(std::string_view kind, std::string_view id, std::string code) {
  api::ApiError error({ErrorCode::kNotFound, concat("there is no ", kind, " '", id.substr(0, 200), "'"), {}});
  error.code = std::move(code);
  return error;
}

}  // namespace met::server
