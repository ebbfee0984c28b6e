// OpenAI's Conversations: items that responses continue and add to.
#include <algorithm>

#include "api/items.h"
#include "api/lower.h"
#include "core/concat.h"
#include "server/json_answer.h"
#include "server/paging.h"
#include "server/routes.h"

namespace met::server {
namespace {

using api::ApiError;
constexpr std::size_t kItemsAtOnceMax = 20;

ApiError no_conversation(std::string_view id) {
  return no_object("conversation", id, "conversation_not_found");
}
ApiError no_item(std::string_view id) { return no_object("item", id, "item_not_found"); }

/// The `items` of a body, with ids.
Answered<std::vector<api::Item>> new_items(const json::Value& body) {
  std::vector<api::Item> out;
  const json::Value* given = api::given(body, "items");
  if (given == nullptr) return out;
  MET_ASSIGN(json::Array items, api::read_items(*given, "items"));
  if (items.size() > kItemsAtOnceMax)
    return std::unexpected(ApiError(
        {ErrorCode::kInvalidArgument,
         concat("items must hold at most ", kItemsAtOnceMax, " items, got ", items.size()), "items"}));
  for (json::Value& item : items) {
    json::Object named{{"id", random_id(api::id_prefix(item))}};
    for (auto& [name, value] : item.as_object()) named.set(name, std::move(value));
    out.push_back(std::make_shared<const json::Value>(std::move(named)));
  }
  return out;
}

Result<json::Object> new_metadata(const json::Value& body) {
  const json::Value* given = api::given(body, "metadata");
  if (given == nullptr) return json::Object{};
  return api::read_metadata(*given);
}

/// Items for a conversation, as a body gives them.
struct Given {
  std::vector<storage::NewItem> items;
  json::Array shown;        // the same
  json::Object metadata{};  // of a new conversation
};

Answered<Given> read_given(const json::Value& body) {
  Given out;
  MET_ASSIGN(const std::vector<api::Item> items, new_items(body));
  out.items = to_store(items);
  for (const api::Item& item : items) out.shown.push_back(*item);
  return out;
}

/// `work(store, key, conversation)` with the conversation that the path names.
template <class Work>
auto with_conversation(const Exchange& http, Work work) {
  using Value = std::invoke_result_t<Work&, storage::ObjectStore&, const storage::Key&, storage::Object&>;
  return [key = object_key(Kind::kConversation, http.tenant(), http.parameters()[0]),
          work = std::move(work)](storage::ObjectStore& store) -> Value {
    auto conversation = store.get(key);
    if (!conversation) return std::unexpected(no_conversation(key.id));
    return work(store, key, *conversation);
  };
}

Answered<std::string> set_metadata(storage::ObjectStore& store, const storage::Key& key,
                                   storage::Object& conversation, const json::Object& metadata) {
  MET_ASSIGN(json::Value object, json::parse(conversation.body));
  object.as_object().set("metadata", metadata);
  conversation.body = json::write(object);
  MET_TRY(store.put(key, conversation));
  return conversation.body;
}

/// What stands behind the item moves up to what stands before it.
Answered<std::string> erase_item(storage::ObjectStore& store, const storage::Key& key,
                                 storage::Object& conversation, const std::string& item_id) {
  const std::vector<storage::ItemRef> all = store.chain(0, conversation.tip);
  const auto gone = std::ranges::find(all, item_id, &storage::ItemRef::id);
  if (gone == all.end()) return std::unexpected(no_item(item_id));
  std::vector<storage::NewItem> behind;
  for (auto item = gone + 1; item != all.end(); ++item)
    if (item->id != item_id) behind.push_back({item->id, store.item_body(item->number)});
  conversation.tip = store.append(key.tenant, gone == all.begin() ? 0 : std::prev(gone)->number, behind);
  MET_TRY(store.put(key, conversation));
  return conversation.body;
}

}  // namespace

awaitable<void> post_conversations(Exchange& http, Services& met) {
  auto read = [](const json::Value& body, Services&) -> Answered<Given> {
    MET_ASSIGN(Given given, read_given(body));
    MET_ASSIGN(given.metadata, new_metadata(body));
    return given;
  };
  auto given = co_await from_object(http, met, std::move(read));
  if (!given) co_return;
  const std::string id = random_id("conv_");
  json::Object object{{"id", id}, {"object", "conversation"}};
  object.append("created_at", unix_now());
  object.append("metadata", std::move(given->metadata));
  auto job = [key = object_key(Kind::kConversation, http.tenant(), id), body = json::write(object),
              items = std::move(given->items)](storage::ObjectStore& store) -> Answered<std::string> {
    MET_TRY(store.put(key, {.tip = store.append(key.tenant, 0, items), .body = body}));
    return body;
  };
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

awaitable<void> get_conversation(Exchange& http, Services& met) {
  auto job = with_conversation(http, [](auto&, const auto&, auto& conversation) -> Answered<std::string> {
    return std::move(conversation.body);
  });
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

awaitable<void> post_conversation(Exchange& http, Services& met) {
  auto read = [](const json::Value& body, Services&) -> Answered<json::Object> {
    MET_ASSIGN(json::Object metadata, new_metadata(body));
    return metadata;
  };
  auto metadata = co_await from_object(http, met, std::move(read));
  if (!metadata) co_return;
  auto job = with_conversation(
      http, [metadata = std::move(*metadata)](auto& store, const auto& key, auto& conversation) {
        return set_metadata(store, key, conversation, metadata);
      });
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

awaitable<void> delete_conversation(Exchange& http, Services& met) {
  auto job = with_conversation(http, [](auto& store, const auto& key, auto&) -> JsonResult {
    store.erase(key);
    return json::Object{{"id", key.id}, {"object", "conversation.deleted"}, {"deleted", true}};
  });
  JsonResult result = co_await met.stores.run(std::move(job));
  co_await answer(http, std::move(result));
}

awaitable<void> get_conversation_items(Exchange& http, Services& met) {
  auto job = with_conversation(http,
                               [page = page_request(http.head(), /*descending=*/true)](
                                   auto& store, const auto&, auto& conversation) -> Answered<std::string> {
                                 if (!page) return std::unexpected(page.error());
                                 return item_page(store, 0, conversation.tip, *page);
                               });
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

awaitable<void> post_conversation_items(Exchange& http, Services& met) {
  auto read = [](const json::Value& body, Services&) -> Answered<Given> {
    auto given = read_given(body);
    if (given && given->items.empty())
      return std::unexpected(ApiError({ErrorCode::kInvalidArgument, "items must not be empty", "items"}));
    return given;
  };
  auto given = co_await from_object(http, met, std::move(read));
  if (!given) co_return;
  auto job = with_conversation(
      http, [given = std::move(*given)](auto& store, const auto& key, auto& conversation) -> JsonResult {
        conversation.tip = store.append(key.tenant, conversation.tip, given.items);
        MET_TRY(store.put(key, conversation));
        return page_json(given.shown, /*has_more=*/false);
      });
  JsonResult result = co_await met.stores.run(std::move(job));
  co_await answer(http, std::move(result));
}

awaitable<void> get_conversation_item(Exchange& http, Services& met) {
  auto job = with_conversation(http,
                               [item_id = http.parameters()[1]](auto& store, const auto&,
                                                                auto& conversation) -> Answered<std::string> {
                                 for (const storage::ItemRef& item : store.chain(0, conversation.tip))
                                   if (item.id == item_id) return store.item_body(item.number);
                                 return std::unexpected(no_item(item_id));
                               });
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

awaitable<void> delete_conversation_item(Exchange& http, Services& met) {
  auto job = with_conversation(
      http, [item_id = http.parameters()[1]](auto& store, const auto& key, auto& conversation) {
        return erase_item(store, key, conversation, item_id);
      });
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

}  // namespace met::server
