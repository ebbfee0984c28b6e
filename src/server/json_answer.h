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

/// 404 for an object that is not there, or is another key's.
api::ApiError no_object(std::string_view kind, std::string_view id, std::string code);

/// Runs `work(body, met)` on a text thread, with the body as a JSON object, and answers with what it gives.
template <class Work>
awaitable<void> answer_with(Exchange& http, Services& met, Work work) {
  auto job = [&met, work = std::move(work)](const std::string& body) -> JsonResult {
    MET_ASSIGN(const json::Value parsed, json::parse(body));
    if (!parsed.is_object())
      return std::unexpected(
          api::ApiError({ErrorCode::kInvalidArgument, "the body must be a JSON object", {}}));
    return work(parsed, met);
  };
  auto result = co_await on_text_thread(http, met, std::move(job));
  if (!result) co_return;
  JsonResult value = std::move(*result);
  co_await answer(http, std::move(value));
}

}  // namespace met::server
