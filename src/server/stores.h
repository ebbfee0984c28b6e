// What the server keeps for its clients between requests: one store of objects, worked on by its own thread.
#pragma once

#include <atomic>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/error.h"
#include "api/items.h"
#include "config/settings.h"
#include "server/paging.h"
#include "server/wake.h"
#include "storage/store_thread.h"

namespace met::server {

/// Kinds of objects; the numbers are those of the file.
///   response      body: the object · aside: the events of a background stream · items: history, input, output, with
///                 `base` behind the history and `own` behind the input
///   conversation  body: the object · items
///   completion    body: the object · aside: what lists are filtered by · items: the messages
enum class Kind : int { kResponse = 0, kConversation = 1, kCompletion = 2 };

inline storage::Key object_key(Kind kind, std::uint64_t tenant, std::string id) {
  return {.kind = static_cast<int>(kind), .tenant = tenant, .id = std::move(id)};
}

/// A value or the error that its request ends with.
template <class T>
using Answered = std::expected<T, api::ApiError>;

class Stores {
 public:
  /// As --store-dir and the bounds say; background responses whose process has ended are failed ones from now on.
  /// Errors name --store-dir.
  static Result<std::unique_ptr<storage::ObjectStore>> open(const config::Settings& settings);
  explicit Stores(std::unique_ptr<storage::ObjectStore> store) : thread_(std::move(store)) {}

  /// Runs `work(store)`, which gives an Answered<T>, on the store's thread. Its value, once what it did is committed;
  /// an error undoes it. Back on the caller's loop.
  template <class Work>
  awaitable<std::invoke_result_t<Work&, storage::ObjectStore&>> run(Work work) {
    using Value = std::invoke_result_t<Work&, storage::ObjectStore&>;
    struct Ending {
      std::optional<Value> value;
      std::atomic<bool> here = false;
    };
    const auto loop = co_await asio::this_coro::executor;
    Wake wake(loop);
    const auto ending = std::make_shared<Ending>();
    thread_.post(
        [ending, work = std::move(work)](storage::ObjectStore& store) mutable {
          ending->value = work(store);
          return ending->value->has_value();
        },
        [ending, tell = wake.notifier()](const Error* error) {
          if (error != nullptr) ending->value = std::unexpected(api::ApiError(*error));
          ending->here.store(true, std::memory_order_release);
          tell();
        });
    while (!ending->here.load(std::memory_order_acquire))
      co_await wake.wait(Clock::now() + std::chrono::hours(1));
    co_return std::move(*ending->value);
  }

  /// Ends what was begun; loops that wait for it must still be there.
  void stop() { thread_.stop(); }

 private:
  storage::StoreThread thread_;
};

// For work on the store's thread.

std::vector<storage::NewItem> to_store(const std::vector<api::Item>& items);
/// The texts of the items behind `base` up to `tip`.
std::vector<std::string> item_texts(storage::ObjectStore& store, storage::ItemNumber base,
                                    storage::ItemNumber tip);
/// Errors: kDataLoss, a text is no JSON.
Result<std::vector<api::Item>> to_items(const std::vector<std::string>& texts);
/// The page of those items, as text.
Answered<std::string> item_page(storage::ObjectStore& store, storage::ItemNumber base,
                                storage::ItemNumber tip, const PageRequest& page);
/// Makes a stored response a failed one; a stream of its events ends with that.
Answered<std::string> fail_response(storage::ObjectStore& store, const storage::Key& key,
                                    storage::State state, std::string_view message);

}  // namespace met::server
