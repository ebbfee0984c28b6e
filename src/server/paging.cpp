#include "server/paging.h"

#include <algorithm>
#include <charconv>

#include "core/concat.h"

namespace met::server {
namespace {

constexpr std::size_t kLimitMax = 100;

std::unexpected<api::ApiError> bad(std::string name, std::string message) {
  return std::unexpected(api::ApiError({ErrorCode::kInvalidArgument, std::move(message), std::move(name)}));
}

}  // namespace

std::expected<PageRequest, api::ApiError> page_request(const Head& head, bool descending) {
  PageRequest out{.descending = descending};
  for (const auto& [name, value] : query_pairs(head.query)) {
    if (name == "after") out.after = value;
    if (name == "limit") {
      const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), out.limit);
      if (code != std::errc{} || end != value.data() + value.size() || out.limit < 1 || out.limit > kLimitMax)
        return bad("limit", concat("limit must be an integer from 1 to ", kLimitMax));
    }
    if (name == "order") {
      if (value != "asc" && value != "desc") return bad("order", "order must be asc or desc");
      out.descending = value == "desc";
    }
  }
  return out;
}

std::expected<Page, api::ApiError> page_of(const std::vector<std::string>& ids, const PageRequest& request) {
  const auto size = ids.size();
  const auto place = [&](std::size_t i) { return request.descending ? size - 1 - i : i; };
  std::size_t from = 0;
  if (!request.after.empty()) {
    while (from < size && ids[place(from)] != request.after) ++from;
    if (from == size) return bad("after", "after names nothing in this list");
    ++from;
  }
  const std::size_t to = std::min(size, from + request.limit);
  Page out{.has_more = to < size};
  for (std::size_t i = from; i < to; ++i) out.picks.push_back(place(i));
  return out;
}

json::Value page_json(json::Array data, bool has_more) {
  json::Object out{{"object", "list"}};
  out.append("first_id", data.empty() ? json::Value() : *data.front().find("id"));
  out.append("last_id", data.empty() ? json::Value() : *data.back().find("id"));
  out.append("has_more", has_more);
  out.append("data", std::move(data));
  return json::Value(std::move(out));
}

}  // namespace met::server
