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

json::Value conversation_json(const std::string& id, const Conversation& conversation) {
  json::Object out{{"id", id}, {"object", "conversation"}};
  out.append("created_at", conversation.created);
  out.append("metadata", conversation.metadata);
  return out;
}

/// The `items` of a body, with ids.
Result<std::vector<api::Item>> new_items(const json::Value& body) {
  std::vector<api::Item> out;
  const json::Value* given = api::given(body, "items");
  if (given == nullptr) return out;
  MET_ASSIGN(json::Array items, api::read_items(*given, "items"));
  if (items.size() > kItemsAtOnceMax)
    return invalid("items",
                   concat("items must hold at most ", kItemsAtOnceMax, " items, got ", items.size()));
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

JsonResult create(const json::Value& body, std::uint64_t tenant, Services& met) {
  Conversation conversation{.created = unix_now()};
  MET_ASSIGN(conversation.metadata, new_metadata(body));
  MET_ASSIGN(conversation.items, new_items(body));
  const std::string id = random_id("conv_");
  json::Value out = conversation_json(id, conversation);
  if (!met.stores.conversations.put(tenant, id, Stores::sized(std::move(conversation))))
    return std::unexpected(
        ApiError({ErrorCode::kPayloadTooLarge, "the items are larger than the store", "items"}));
  return out;
}

JsonResult update(const json::Value& body, std::uint64_t tenant, const std::string& id, Services& met) {
  MET_ASSIGN(const json::Object metadata, new_metadata(body));
  const auto changed = met.stores.conversations.update(tenant, id, [&](const Conversation& old) {
    Conversation next = old;
    next.metadata = metadata;
    return Stores::sized(std::move(next));
  });
  if (!changed) return std::unexpected(no_conversation(id));
  return conversation_json(id, *changed);
}

JsonResult append(const json::Value& body, std::uint64_t tenant, const std::string& id, Services& met) {
  if (!met.stores.conversations.get(tenant, id)) return std::unexpected(no_conversation(id));
  MET_ASSIGN(const std::vector<api::Item> items, new_items(body));
  if (items.empty())
    return std::unexpected(ApiError({ErrorCode::kInvalidArgument, "items must not be empty", "items"}));
  const auto changed = met.stores.conversations.update(tenant, id, [&](const Conversation& old) {
    Conversation next = old;
    next.items.insert(next.items.end(), items.begin(), items.end());
    return Stores::sized(std::move(next));
  });
  if (!changed) return std::unexpected(no_conversation(id));
  return page_of(items, {.limit = items.size(), .descending = false});
}

}  // namespace

awaitable<void> post_conversations(Exchange& http, Services& met) {
  auto work = [tenant = http.tenant()](const json::Value& body, Services& services) {
    return create(body, tenant, services);
  };
  co_await answer_with(http, met, std::move(work));
}

awaitable<void> get_conversation(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  const auto conversation = met.stores.conversations.get(http.tenant(), id);
  JsonResult result = std::unexpected(no_conversation(id));
  if (conversation) result = conversation_json(id, *conversation);
  co_await answer(http, std::move(result));
}

awaitable<void> post_conversation(Exchange& http, Services& met) {
  auto work = [tenant = http.tenant(), id = http.parameters()[0]](
                  const json::Value& body, Services& services) { return update(body, tenant, id, services); };
  co_await answer_with(http, met, std::move(work));
}

awaitable<void> delete_conversation(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  JsonResult result = std::unexpected(no_conversation(id));
  if (met.stores.conversations.erase(http.tenant(), id))
    result = json::Object{{"id", id}, {"object", "conversation.deleted"}, {"deleted", true}};
  co_await answer(http, std::move(result));
}

awaitable<void> get_conversation_items(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  const auto conversation = met.stores.conversations.get(http.tenant(), id);
  const auto page = page_request(http.head(), /*descending=*/true);
  JsonResult result = std::unexpected(no_conversation(id));
  if (conversation && !page) {
    result = std::unexpected(page.error());
  } else if (conversation) {
    result = page_of(conversation->items, *page);
  }
  co_await answer(http, std::move(result));
}

awaitable<void> post_conversation_items(Exchange& http, Services& met) {
  auto work = [tenant = http.tenant(), id = http.parameters()[0]](
                  const json::Value& body, Services& services) { return append(body, tenant, id, services); };
  co_await answer_with(http, met, std::move(work));
}

awaitable<void> get_conversation_item(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  const std::string& item_id = http.parameters()[1];
  const auto conversation = met.stores.conversations.get(http.tenant(), id);
  JsonResult result = std::unexpected(conversation ? no_item(item_id) : no_conversation(id));
  if (conversation)
    for (const api::Item& item : conversation->items)
      if (*item->find("id") == json::Value(item_id)) result = *item;
  co_await answer(http, std::move(result));
}

awaitable<void> delete_conversation_item(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  const std::string& item_id = http.parameters()[1];
  bool found = false;
  const auto changed = met.stores.conversations.update(http.tenant(), id, [&](const Conversation& old) {
    Conversation next = old;
    found = std::erase_if(next.items, [&](const api::Item& item) {
              return *item->find("id") == json::Value(item_id);
            }) > 0;
    return Stores::sized(std::move(next));
  });
  JsonResult result = std::unexpected(changed ? no_item(item_id) : no_conversation(id));
  if (changed && found) result = conversation_json(id, *changed);
  co_await answer(http, std::move(result));
}

}  // namespace met::server
