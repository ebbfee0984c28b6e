#include "server/json_answer.h"

#include "core/concat.h"

namespace met::server {

awaitable<void> answer(Exchange& http, JsonResult result) {
  if (!result) {
    co_await http.fail(result.error());
    co_return;
  }
  Response response;
  response.body = json::write(*result);
  co_await http.respond(std::move(response));
}

api::ApiError no_object(std::string_view kind, std::string_view id, std::string code) {
  api::ApiError error({ErrorCode::kNotFound, concat("there is no ", kind, " '", id.substr(0, 200), "'"), {}});
  error.code = std::move(code);
  return error;
}

}  // namespace met::server
