// Lists in pages, as OpenAI's clients walk them.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "api/error.h"
#include "api/items.h"
#include "server/head.h"

namespace met::server {

struct PageRequest {
  std::string after;  ///< the id that the page begins behind
  std::size_t limit = 20;
  bool descending = true;
};

/// `after`, `limit` (1 to 100) and `order` (asc, desc) of a query. Errors: 400 naming the parameter.
std::expected<PageRequest, api::ApiError> page_request(const Head& head, bool descending);

/// {"object": "list", "data", "first_id", "last_id", "has_more"} of items that have an `id`, given oldest
/// first. Errors: 400, `after` names none of them.
std::expected<json::Value, api::ApiError> page_of(const std::vector<api::Item>& items,
                                                  const PageRequest& request);

}  // namespace met::server
