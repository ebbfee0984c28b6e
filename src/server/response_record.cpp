#include "server/response_record.h"

#include "server/head.h"

namespace met::server {
namespace {

using api::ApiError;
using storage::ItemNumber;
using storage::ObjectStore;

/// Where the items of the record's history end. What it continued may have gone meanwhile.
ItemNumber history_tip(ObjectStore& store, const ResponseRecord& record) {
  const History& history = record.history;
  return store.stands(history.tip) ? history.tip
                                   : store.append(record.key.tenant, 0, to_store(history.items));
}

Answered<bool> put(ObjectStore& store, const storage::Key& key, const storage::Object& object) {
  if (auto kept = store.put(key, object); !kept) return std::unexpected(ApiError(kept.error()));
  return true;
}

/// The response's tip, once it is stored; nothing where it is not to be stored, or was deleted while it ran.
Answered<std::optional<ItemNumber>> store_ended(ObjectStore& store, const ResponseRecord& record,
                                                const ResponseEnding& ending, const std::string& events) {
  if (!record.store) return std::nullopt;
  storage::Object object;
  if (record.background) {
    const auto queued = store.get(record.key);
    if (!queued) return std::nullopt;
    object = *queued;
    object.state = storage::State::kWhole;
  } else {
    object.base = history_tip(store, record);
    object.own = store.append(record.key.tenant, object.base, to_store(record.input));
  }
  object.tip = store.append(record.key.tenant, object.own, to_store(ending.output));
  object.body = json::write(ending.object);
  object.aside = events;
  MET_ASSIGN([[maybe_unused]] const bool kept, put(store, record.key, object));
  return object.tip;
}

/// Nobody else's turn came between: the conversation goes on where the response ends. Else it gets its own copy.
Answered<bool> grow_conversation(ObjectStore& store, const ResponseRecord& record,
                                 const ResponseEnding& ending, std::optional<ItemNumber> tip) {
  const storage::Key key = object_key(Kind::kConversation, record.key.tenant, *record.conversation_id);
  auto conversation = store.get(key);
  if (!conversation) return true;
  if (tip && conversation->tip == record.history.tip) {
    conversation->tip = *tip;
  } else {
    conversation->tip = store.append(key.tenant, conversation->tip, to_store(record.input));
    conversation->tip = store.append(key.tenant, conversation->tip, to_store(ending.output));
  }
  return put(store, key, *conversation);
}

}  // namespace

std::vector<api::Item> named(const json::Array& items) {
  std::vector<api::Item> out;
  for (const json::Value& item : items) {
    if (item.find("id") != nullptr) {
      out.push_back(std::make_shared<const json::Value>(item));
      continue;
    }
    json::Object with_id{{"id", random_id(api::id_prefix(item))}};
    for (const auto& [name, value] : item.as_object()) with_id.append(name, value);
    out.push_back(std::make_shared<const json::Value>(std::move(with_id)));
  }
  return out;
}

ResponseEnding ending_of(const api::ResponseEncoder& encoder) {
  using Status = api::ResponseStatus;
  return {.object = encoder.object(),
          .output = named(encoder.output()),
          .whole = encoder.status() == Status::kCompleted || encoder.status() == Status::kIncomplete};
}

Answered<bool> store_queued(ObjectStore& store, const ResponseRecord& record, const json::Value& object,
                            const std::string& events) {
  storage::Object queued{.state = storage::State::kOpen, .body = json::write(object), .aside = events};
  queued.base = history_tip(store, record);
  queued.own = store.append(record.key.tenant, queued.base, to_store(record.input));
  queued.tip = queued.own;
  return put(store, record.key, queued);
}

awaitable<std::optional<ApiError>> keep_response(std::shared_ptr<const ResponseRecord> record,
                                                 ResponseEnding ending, std::string events, Services& met) {
  auto job = [record, ending = std::move(ending),
              events = std::move(events)](ObjectStore& store) -> Answered<bool> {
    MET_ASSIGN(const std::optional<ItemNumber> tip, store_ended(store, *record, ending, events));
    if (!record->conversation_id || !ending.whole) return true;
    return grow_conversation(store, *record, ending, tip);
  };
  const Answered<bool> kept = co_await met.stores.run(std::move(job));
  if (kept) co_return std::nullopt;
  co_return kept.error();
}

}  // namespace met::server
