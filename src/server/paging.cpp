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

const json::Value& id_of(const api::Item& item) { return *item->find("id"); }

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

std::expected<json::Value, api::ApiError> page_of(const std::vector<api::Item>& items,
                                                  const PageRequest& request) {
  std::vector<api::Item> ordered = items;
  if (request.descending) std::ranges::reverse(ordered);
  auto from = ordered.begin();
  if (!request.after.empty()) {
    from = std::ranges::find(ordered, json::Value(request.after), id_of);
    if (from == ordered.end()) return bad("after", "after names nothing in this list");
    ++from;
  }
  const auto rest = static_cast<std::size_t>(ordered.end() - from);
  const auto to = from + static_cast<std::ptrdiff_t>(std::min(rest, request.limit));
  json::Array data;
  for (auto item = from; item != to; ++item) data.push_back(**item);
  json::Object out{{"object", "list"}};
  out.append("first_id", data.empty() ? json::Value() : *data.front().find("id"));
  out.append("last_id", data.empty() ? json::Value() : *data.back().find("id"));
  out.append("has_more", to != ordered.end());
  out.append("data", std::move(data));
  return json::Value(std::move(out));
}

}  // namespace met::server
