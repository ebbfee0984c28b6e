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

ApiError no_completion(std::string_view id) {
  return no_object("chat completion", id, "completion_not_found");
}

/// `model` and `metadata[key]` of a query hold for the object.
bool selected(const json::Object& object, const Head& head) {
  for (const auto& [name, value] : query_pairs(head.query)) {
    if (name == "model" && *object.find("model") != json::Value(value)) return false;
    if (!name.starts_with(kMetadataBegin) || !name.ends_with(']')) continue;
    const std::string key = name.substr(kMetadataBegin.size(), name.size() - kMetadataBegin.size() - 1);
    const json::Value* have = object.find("metadata")->find(key);
    if (have == nullptr || *have != json::Value(value)) return false;
  }
  return true;
}

/// A page of the tenant's completions that the query selects. Ids are paged, so that only the page is copied.
JsonResult selected_page(const PageRequest& page, const Exchange& http, Services& met) {
  const auto all = met.stores.completions.list(http.tenant());
  std::vector<api::Item> ids;
  for (const auto& [id, stored] : all)
    if (selected(stored->object, http.head()))
      ids.push_back(std::make_shared<const json::Value>(json::Object{{"id", id}}));
  JsonResult out = page_of(ids, page);
  if (!out) return out;
  for (json::Value& entry : out->as_object().find("data")->as_array()) {
    const auto found = std::ranges::find(all, entry.find("id")->as_string(),
                                         &std::pair<std::string, Stores::Completions::Pointer>::first);
    entry = json::Value(found->second->object);
  }
  return out;
}

JsonResult update(const json::Value& body, std::uint64_t tenant, const std::string& id, Services& met) {
  const json::Value* given = api::given(body, "metadata");
  if (given == nullptr)
    return std::unexpected(ApiError({ErrorCode::kInvalidArgument, "metadata is missing", "metadata"}));
  MET_ASSIGN(const json::Object metadata, api::read_metadata(*given));
  const auto changed = met.stores.completions.update(tenant, id, [&](const StoredCompletion& old) {
    StoredCompletion next = old;
    next.object.set("metadata", metadata);
    return Stores::sized(std::move(next));
  });
  if (!changed) return std::unexpected(no_completion(id));
  return json::Value(changed->object);
}

}  // namespace

void keep_completion(const Recorder& recorder, const api::GenerationRequest& request, std::uint64_t tenant,
                     Services& met) {
  if (!recorder.ended()) return;
  Result<json::Value> object = json::parse(recorder.body());
  MET_CHECK(object && object->is_object(), "a chat completion is JSON");
  StoredCompletion stored{.object = std::move(object->as_object())};
  stored.object.set("metadata", request.metadata);
  const std::string id = stored.object.find("id")->as_string();
  for (const json::Value& message : request.messages) {
    json::Object with_id{{"id", concat(id, "-", stored.messages.size())}};
    for (const auto& [name, value] : message.as_object()) with_id.set(name, value);
    stored.messages.push_back(std::make_shared<const json::Value>(std::move(with_id)));
  }
  met.stores.completions.put(tenant, id, Stores::sized(std::move(stored)));
}

awaitable<void> get_stored_completions(Exchange& http, Services& met) {
  const auto page = page_request(http.head(), /*descending=*/false);
  JsonResult result = std::unexpected(ApiError());
  if (page) {
    result = selected_page(*page, http, met);
  } else {
    result = std::unexpected(page.error());
  }
  co_await answer(http, std::move(result));
}

awaitable<void> get_stored_completion(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  const auto stored = met.stores.completions.get(http.tenant(), id);
  JsonResult result = std::unexpected(no_completion(id));
  if (stored) result = json::Value(stored->object);
  co_await answer(http, std::move(result));
}

awaitable<void> post_stored_completion(Exchange& http, Services& met) {
  auto work = [tenant = http.tenant(), id = http.parameters()[0]](
                  const json::Value& body, Services& services) { return update(body, tenant, id, services); };
  co_await answer_with(http, met, std::move(work));
}

awaitable<void> delete_stored_completion(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  JsonResult result = std::unexpected(no_completion(id));
  if (met.stores.completions.erase(http.tenant(), id))
    result = json::Object{{"id", id}, {"object", "chat.completion.deleted"}, {"deleted", true}};
  co_await answer(http, std::move(result));
}

awaitable<void> get_stored_messages(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  const auto stored = met.stores.completions.get(http.tenant(), id);
  const auto page = page_request(http.head(), /*descending=*/false);
  JsonResult result = std::unexpected(no_completion(id));
  if (stored && !page) {
    result = std::unexpected(page.error());
  } else if (stored) {
    result = page_of(stored->messages, *page);
  }
  co_await answer(http, std::move(result));
}

}  // namespace met::server
