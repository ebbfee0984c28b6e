// Routes whose answer is one JSON value.
#pragma once

#include <expected>
#include <string>
#include <utility>

#include "core/json.h"
#include "server/run.h"

namespace met::server {

using JsonResult = std::expected<json::Value, api::ApiError>;

/// 200 with the value, or the error.
awaitable<void> answer(Exchange& http, JsonResult result);

/// The same of a value that is JSON text already.
awaitable<void> answer_text(Exchange& http, std::expected<std::string, api::ApiError> text);

/// 404 for an object that is not there, or is another key's.
api::ApiError no_object(std::string_view kind, std::string_view id, std::string code);

/// Runs `work(body, met)`, which gives a value or an ApiError, on a text thread, with the body as a JSON object. The
/// value; nothing when the exchange was answered with an error or the client has left.
template <class Work>
awaitable<std::optional<typename std::invoke_result_t<Work&, const json::Value&, Services&>::value_type>>
from_object(Exchange& http, Services& met, Work work) {
  auto job = [&met, work = std::move(work)](
                 const std::string& body) -> std::invoke_result_t<Work&, const json::Value&, Services&> {
    MET_ASSIGN(const json::Value parsed, json::parse(body));
    if (!parsed.is_object())
      return std::unexpected(
          api::ApiError({ErrorCode::kInvalidArgument, "the body must be a JSON object", {}}));
    return work(parsed, met);
  };
  co_return co_await on_text_thread(http, met, std::move(job));
}

/// Answers with what `work` gives, see `from_object`.
template <class Work>
awaitable<void> answer_with(Exchange& http, Services& met, Work work) {
  auto result = co_await from_object(http, met, std::move(work));
  if (!result) co_return;
  JsonResult value = std::move(*result);
  co_await answer(http, std::move(value));
}

}  // namespace met::server
