// What the server keeps for its clients between requests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/items.h"
#include "config/settings.h"
#include "core/clock.h"
#include "core/json.h"
#include "storage/object_store.h"

namespace met::server {

class BackgroundRun;

struct StoredResponse {
  api::Item object;                ///< null while it runs in the background
  std::vector<api::Item> input;    ///< of its own request
  std::vector<api::Item> context;  ///< what a next response continues: history, input, output
  bool background = false;
  std::weak_ptr<BackgroundRun> run;           ///< while it runs
  std::shared_ptr<const std::string> events;  ///< of a background stream, to be replayed
};

struct Conversation {
  std::int64_t created = 0;
  json::Object metadata;
  std::vector<api::Item> items;
};

struct StoredCompletion {
  json::Object object;
  std::vector<api::Item> messages;
};

/// A value's memory, near enough to bound it.
std::size_t footprint(const json::Value& value);

class Stores {
 public:
  explicit Stores(const config::Settings& settings);

  using Responses = storage::ObjectStore<StoredResponse>;
  using Conversations = storage::ObjectStore<Conversation>;
  using Completions = storage::ObjectStore<StoredCompletion>;

  /// With what they count.
  static Responses::Sized sized(StoredResponse value);
  static Conversations::Sized sized(Conversation value);
  static Completions::Sized sized(StoredCompletion value);

 private:
  SteadyClock clock_;

 public:
  Responses responses;
  Conversations conversations;
  Completions completions;
};

}  // namespace met::server
