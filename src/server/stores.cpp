#include "server/stores.h"

namespace met::server {
namespace {

storage::StoreLimits limits(std::int64_t entries_max, const config::Settings& settings) {
  return {.entries_max = static_cast<std::size_t>(entries_max),
          .bytes_max = static_cast<std::size_t>(settings.store_max_bytes),
          .ttl_us = settings.store_ttl_s * 1'000'000};
}

std::size_t footprint_of(const std::vector<api::Item>& items) {
  std::size_t out = 0;
  for (const api::Item& item : items) out += footprint(*item) + sizeof item;
  return out;
}

}  // namespace

std::size_t footprint(const json::Value& value) {
  std::size_t out = sizeof value;
  if (value.is_string()) out += value.as_string().capacity();
  if (value.is_array())
    for (const json::Value& v : value.as_array()) out += footprint(v);
  if (value.is_object())
    for (const auto& [key, v] : value.as_object()) out += sizeof key + key.capacity() + footprint(v);
  return out;
}

Stores::Stores(const config::Settings& settings)
    : responses(limits(settings.store_max_entries, settings), clock_),
      conversations(limits(settings.conversation_max_entries, settings), clock_),
      completions(limits(settings.store_max_entries, settings), clock_) {}

// Items that several responses share count for each of them: what is counted is never less than what is held.
Stores::Responses::Sized Stores::sized(StoredResponse value) {
  std::size_t bytes = sizeof value + footprint_of(value.input) + footprint_of(value.context);
  if (value.object) bytes += footprint(*value.object);
  if (value.events) bytes += value.events->capacity();
  return {std::make_shared<const StoredResponse>(std::move(value)), bytes};
}

Stores::Conversations::Sized Stores::sized(Conversation value) {
  const std::size_t bytes = sizeof value + footprint(json::Value(value.metadata)) + footprint_of(value.items);
  return {std::make_shared<const Conversation>(std::move(value)), bytes};
}

Stores::Completions::Sized Stores::sized(StoredCompletion value) {
  const std::size_t bytes =
      sizeof value + footprint(json::Value(value.object)) + footprint_of(value.messages);
  return {std::make_shared<const StoredCompletion>(std::move(value)), bytes};
}

}  // namespace met::server
