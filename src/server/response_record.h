// How a response becomes a stored object.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/responses.h"
#include "server/services.h"

namespace met::server {

/// What a response continues.
struct History {
  std::vector<api::Item> items;
  storage::ItemNumber tip = 0;  ///< of the chain that they were
};

/// What has to be known of a response until it ends.
struct ResponseRecord {
  storage::Key key;
  bool store = false;
  bool background = false;
  std::optional<std::string> conversation_id;
  std::vector<api::Item> input;  ///< of its own request, with ids
  History history;
};

/// How it has ended.
struct ResponseEnding {
  json::Value object;
  std::vector<api::Item> output;  ///< with ids
  bool whole = false;             ///< completed, or cut by a limit
};
ResponseEnding ending_of(const api::ResponseEncoder& encoder);

/// The items with an id each.
std::vector<api::Item> named(const json::Array& items);

/// On the store's thread: stores a response that is queued in the background, with the events that it has written.
Answered<bool> store_queued(storage::ObjectStore& store, const ResponseRecord& record,
                            const json::Value& object, const std::string& events);

/// Stores one that is whole or has failed, and appends a whole one to its conversation. Errors: it could not be stored.
awaitable<std::optional<api::ApiError>> keep_response(std::shared_ptr<const ResponseRecord> record,
                                                      ResponseEnding ending, std::string events,
                                                      Services& met);

}  // namespace met::server
