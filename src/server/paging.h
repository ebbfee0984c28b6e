// Lists in pages, as OpenAI's clients walk them.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <vector>

#include "api/error.h"
#include "core/json.h"
#include "server/head.h"

namespace met::server {

struct PageRequest {
  std::string after;  ///< the id that the page begins behind
  std::size_t limit = 20;
  bool descending = true;
};

struct Page {
  std::vector<std::size_t> picks;  ///< places in the list
  bool has_more = false;
};

/// `after`, `limit` (1 to 100) and `order` (asc, desc) of a query. Errors: 400 naming the parameter.
std::expected<PageRequest, api::ApiError> page_request(const Head& head, bool descending);

/// What a page holds of a list of ids, given oldest first. Errors: 400, `after` names none of them.
std::expected<Page, api::ApiError> page_of(const std::vector<std::string>& ids, const PageRequest& request);

/// {"object": "list", "data", "first_id", "last_id", "has_more"}; each of `data` has an `id`.
json::Value page_json(json::Array data, bool has_more);

}  // namespace met::server
