#include "server/stores.h"

#include <algorithm>

#include "api/sse.h"
#include "core/concat.h"
#include "core/log.h"
#include "server/json_answer.h"

namespace met::server {
namespace {

using storage::ItemNumber;
using storage::ObjectStore;

storage::StoreLimits limits_of(const config::Settings& s) {
  return {.entries_max = {s.store_max_entries, s.conversation_max_entries, s.store_max_entries},
          .bytes_max = s.store_max_bytes,
          .ttl_us = s.store_ttl_s * 1'000'000};
}

/// What a process that ended left open.
Result<void> close_open_responses(ObjectStore& store) {
  store.begin();
  store.begin_operation();
  const std::vector<storage::Key> open = store.open_objects();
  for (const storage::Key& key : open)
    fail_response(store, key, storage::State::kInterrupted,
                  "the server stopped before the response had ended");
  if (const auto ended = store.end_operation(true); ended.error) return std::unexpected(*ended.error);
  if (!open.empty()) log::warn(concat(open.size(), " background responses were cut off by the last end"));
  return store.commit();
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> Stores::open(const config::Settings& settings) {
  static const UnixClock clock;
  auto store = ObjectStore::open(settings.store_dir, limits_of(settings), clock);
  if (store) {
    if (const auto closed = close_open_responses(**store); !closed) store = std::unexpected(closed.error());
  }
  if (!store) store.error().field = "--store-dir";
  return store;
}

std::vector<storage::NewItem> to_store(const std::vector<api::Item>& items) {
  std::vector<storage::NewItem> out;
  for (const api::Item& item : items) out.push_back({item->find("id")->as_string(), json::write(*item)});
  return out;
}

std::vector<std::string> item_texts(ObjectStore& store, ItemNumber base, ItemNumber tip) {
  std::vector<std::string> out;
  for (const storage::ItemRef& item : store.chain(base, tip)) out.push_back(store.item_body(item.number));
  return out;
}

Result<std::vector<api::Item>> to_items(const std::vector<std::string>& texts) {
  std::vector<api::Item> out;
  for (const std::string& text : texts) {
    auto value = json::parse(text);
    if (!value) return corrupt({}, concat("a stored item cannot be read: ", value.error().message));
    out.push_back(std::make_shared<const json::Value>(std::move(*value)));
  }
  return out;
}

Answered<std::string> item_page(ObjectStore& store, ItemNumber base, ItemNumber tip,
                                const PageRequest& request) {
  const std::vector<storage::ItemRef> all = store.chain(base, tip);
  std::vector<std::string> ids;
  for (const storage::ItemRef& item : all) ids.push_back(item.id);
  MET_ASSIGN(const Page page, page_of(ids, request));
  std::vector<std::string> texts;
  for (const std::size_t pick : page.picks) texts.push_back(store.item_body(all[pick].number));
  MET_ASSIGN(const std::vector<api::Item> items, to_items(texts));
  json::Array data;
  for (const api::Item& item : items) data.push_back(*item);
  return json::write(page_json(std::move(data), page.has_more));
}

Answered<std::string> fail_response(ObjectStore& store, const storage::Key& key, storage::State state,
                                    std::string_view message) {
  auto stored = store.get(key);
  if (!stored) return std::unexpected(no_object("response", key.id, "response_not_found"));
  MET_ASSIGN(json::Value object, json::parse(stored->body));
  if (!object.is_object())
    return std::unexpected(api::ApiError(Error{ErrorCode::kDataLoss, "a response is no object", {}}));
  object.as_object().set("status", "failed");
  object.as_object().set("error", json::Object{{"code", "server_error"}, {"message", message}});
  stored->body = json::write(object);
  stored->state = state;
  stored->aside = store.aside(key);
  if (!stored->aside.empty()) {
    api::sse_begin("response.failed", stored->aside);
    api::sse_member("sequence_number", std::ranges::count(stored->aside, '\n') / 3, stored->aside);
    api::sse_member("response", object, stored->aside);
    api::sse_end(stored->aside);
  }
  if (auto put = store.put(key, *stored); !put) return std::unexpected(api::ApiError(put.error()));
  return stored->body;
}

}  // namespace met::server
