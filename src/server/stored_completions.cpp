// Chat completions that were asked for with `store`.
#include <algorithm>

#include "api/items.h"
#include "api/lower.h"
#include "core/concat.h"
#include "server/json_answer.h"
#include "server/paging.h"
#include "server/recorder.h"
#include "server/routes.h"

namespace met::server {
namespace {

using api::ApiError;
constexpr std::string_view kMetadataBegin = "metadata[";

storage::Key key_of(const Exchange& http) {
  return object_key(Kind::kCompletion, http.tenant(), http.parameters()[0]);
}

ApiError no_completion(std::string_view id) {
  return no_object("chat completion", id, "completion_not_found");
}

/// What lists are filtered by, as it is stored beside the object.
std::string labels(const json::Object& object) {
  json::Object out{{"model", *object.find("model")}};
  out.append("metadata", *object.find("metadata"));
  return json::write(out);
}

using Filters = std::vector<std::pair<std::string, std::string>>;

/// `model` and `metadata[key]` of a query hold for the object with these labels.
bool selected(const std::string& text, const Filters& filters) {
  if (filters.empty()) return true;
  const auto labels = json::parse(text);
  if (!labels) return false;
  for (const auto& [name, value] : filters) {
    const std::string key =
        name == "model" ? name : name.substr(kMetadataBegin.size(), name.size() - kMetadataBegin.size() - 1);
    const json::Value* have = name == "model" ? labels->find(key) : labels->find("metadata")->find(key);
    if (have == nullptr || *have != json::Value(value)) return false;
  }
  return true;
}

Filters filters_of(const Head& head) {
  Filters out = query_pairs(head.query);
  std::erase_if(out, [](const auto& pair) {
    return pair.first != "model" && !(pair.first.starts_with(kMetadataBegin) && pair.first.ends_with(']'));
  });
  return out;
}

/// A page of the tenant's completions that the filters select.
Answered<std::string> selected_page(storage::ObjectStore& store, std::uint64_t tenant,
                                    const PageRequest& request, const Filters& filters) {
  std::vector<std::string> ids;
  for (const storage::Listed& entry : store.list(static_cast<int>(Kind::kCompletion), tenant))
    if (selected(entry.aside, filters)) ids.push_back(entry.id);
  MET_ASSIGN(const Page page, page_of(ids, request));
  json::Array data;
  for (const std::size_t pick : page.picks) {
    const auto stored = store.get(object_key(Kind::kCompletion, tenant, ids[pick]));
    if (!stored) continue;
    MET_ASSIGN(json::Value object, json::parse(stored->body));
    data.push_back(std::move(object));
  }
  return json::write(page_json(std::move(data), page.has_more));
}

Answered<std::string> set_metadata(storage::ObjectStore& store, const storage::Key& key,
                                   const json::Object& metadata) {
  auto stored = store.get(key);
  if (!stored) return std::unexpected(no_completion(key.id));
  MET_ASSIGN(json::Value object, json::parse(stored->body));
  object.as_object().set("metadata", metadata);
  stored->body = json::write(object);
  stored->aside = labels(object.as_object());
  MET_TRY(store.put(key, *stored));
  return stored->body;
}

/// The object and its messages, which get ids that follow from the object's.
Answered<bool> store_completion(storage::ObjectStore& store, std::uint64_t tenant, const std::string& body,
                                const json::Object& metadata, const json::Array& messages) {
  MET_ASSIGN(json::Value object, json::parse(body));
  object.as_object().set("metadata", metadata);
  const std::string id = object.find("id")->as_string();
  std::vector<storage::NewItem> items;
  for (const json::Value& message : messages) {
    json::Object with_id{{"id", concat(id, "-", items.size())}};
    for (const auto& [name, value] : message.as_object()) with_id.set(name, value);
    items.push_back({with_id.find("id")->as_string(), json::write(with_id)});
  }
  storage::Object stored{.body = json::write(object), .aside = labels(object.as_object())};
  stored.tip = store.append(tenant, 0, items);
  MET_TRY(store.put(object_key(Kind::kCompletion, tenant, id), stored));
  return true;
}

}  // namespace

awaitable<std::optional<ApiError>> keep_completion(const Recorder& recorder,
                                                   const api::GenerationRequest& request,
                                                   std::uint64_t tenant, Services& met) {
  if (!recorder.ended()) co_return std::nullopt;
  auto job = [tenant, body = recorder.body(), metadata = request.metadata,
              messages = request.messages](storage::ObjectStore& store) {
    return store_completion(store, tenant, body, metadata, messages);
  };
  const Answered<bool> kept = co_await met.stores.run(std::move(job));
  if (kept) co_return std::nullopt;
  co_return kept.error();
}

awaitable<void> get_stored_completions(Exchange& http, Services& met) {
  const auto page = page_request(http.head(), /*descending=*/false);
  if (!page) {
    co_await http.fail(page.error());
    co_return;
  }
  auto job = [tenant = http.tenant(), page = *page, filters = filters_of(http.head())](
                 storage::ObjectStore& store) { return selected_page(store, tenant, page, filters); };
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

awaitable<void> get_stored_completion(Exchange& http, Services& met) {
  auto job = [key = key_of(http)](storage::ObjectStore& store) -> Answered<std::string> {
    auto stored = store.get(key);
    if (!stored) return std::unexpected(no_completion(key.id));
    return std::move(stored->body);
  };
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

awaitable<void> post_stored_completion(Exchange& http, Services& met) {
  auto read = [](const json::Value& body, Services&) -> Answered<json::Object> {
    const json::Value* given = api::given(body, "metadata");
    if (given == nullptr)
      return std::unexpected(ApiError({ErrorCode::kInvalidArgument, "metadata is missing", "metadata"}));
    MET_ASSIGN(json::Object metadata, api::read_metadata(*given));
    return metadata;
  };
  auto metadata = co_await from_object(http, met, std::move(read));
  if (!metadata) co_return;
  auto job = [key = key_of(http), metadata = std::move(*metadata)](storage::ObjectStore& store) {
    return set_metadata(store, key, metadata);
  };
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

awaitable<void> delete_stored_completion(Exchange& http, Services& met) {
  auto job = [key = key_of(http)](storage::ObjectStore& store) -> JsonResult {
    if (!store.erase(key)) return std::unexpected(no_completion(key.id));
    return json::Object{{"id", key.id}, {"object", "chat.completion.deleted"}, {"deleted", true}};
  };
  JsonResult result = co_await met.stores.run(std::move(job));
  co_await answer(http, std::move(result));
}

awaitable<void> get_stored_messages(Exchange& http, Services& met) {
  auto job = [key = key_of(http), page = page_request(http.head(), /*descending=*/false)](
                 storage::ObjectStore& store) -> Answered<std::string> {
    const auto stored = store.get(key);
    if (!stored) return std::unexpected(no_completion(key.id));
    if (!page) return std::unexpected(page.error());
    return item_page(store, 0, stored->tip, *page);
  };
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

}  // namespace met::server
