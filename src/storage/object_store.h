// Objects that clients may come back for: bounded in number and bytes, with expiry, each behind its tenant's key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/clock.h"

namespace met::storage {

struct StoreLimits {
  std::size_t entries_max = 10'000;
  std::size_t bytes_max = 256U << 20U;
  std::int64_t ttl_us = 86'400'000'000;  ///< since the last write
};

/// Immutable values by (tenant, id). When a bound is met, the tenant that holds the most bytes gives up what it
/// has not written for the longest time: nobody can push out what belongs to others. Safe from any thread;
/// values are shared, so a reader keeps what it read.
template <class T>
class ObjectStore {
 public:
  using Pointer = std::shared_ptr<const T>;
  /// A value and what it counts.
  struct Sized {
    Pointer value;
    std::size_t bytes = 0;
  };

  /// `clock` outlives the store.
  ObjectStore(StoreLimits limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  /// Adds or replaces. False: it is larger than the whole store may be, and is not kept.
  bool put(std::uint64_t tenant, const std::string& id, Sized sized) {
    const std::lock_guard lock(mutex_);
    return put_locked(tenant, id, std::move(sized));
  }

  /// The value, or nullptr: unknown, expired, given up, or another tenant's.
  Pointer get(std::uint64_t tenant, const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto entry = find_locked(tenant, id);
    return entry ? (*entry)->value : nullptr;
  }

  bool erase(std::uint64_t tenant, const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto entry = find_locked(tenant, id);
    if (entry) remove_locked(tenant, *entry);
    return entry.has_value();
  }

  /// Replaces a value by `change(old)`, which runs under the lock. The new one, or nullptr: there is none.
  template <class Change>
  Pointer update(std::uint64_t tenant, const std::string& id, Change change) {
    const std::lock_guard lock(mutex_);
    const auto entry = find_locked(tenant, id);
    if (!entry) return nullptr;
    Sized changed = change(*(*entry)->value);
    Pointer value = changed.value;
    put_locked(tenant, id, std::move(changed));
    return value;
  }

  /// A tenant's values, in the order in which they were first put.
  std::vector<std::pair<std::string, Pointer>> list(std::uint64_t tenant) {
    const std::lock_guard lock(mutex_);
    expire_locked();
    std::map<std::uint64_t, std::pair<std::string, Pointer>> sorted;
    for (const Entry& entry : shelves_[tenant].entries) sorted[entry.number] = {entry.id, entry.value};
    std::vector<std::pair<std::string, Pointer>> out;
    for (auto& [number, item] : sorted) out.push_back(std::move(item));
    return out;
  }

  std::size_t entries() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Entry {
    std::string id;
    Pointer value;
    std::size_t bytes = 0;
    std::int64_t written_us = 0;
    std::uint64_t number = 0;  // of the first put
  };
  using Place = typename std::list<Entry>::iterator;
  struct Shelf {
    std::list<Entry> entries;  // by time of the last write
    std::unordered_map<std::string, Place> places;
    std::size_t bytes = 0;
  };

  bool put_locked(std::uint64_t tenant, const std::string& id, Sized sized) {
    expire_locked();
    Entry entry{.id = id,
                .value = std::move(sized.value),
                .bytes = sized.bytes + id.size() + kEntryBytes,
                .written_us = clock_.now_us(),
                .number = next_number_++};
    Shelf& shelf = shelves_[tenant];
    if (const auto old = shelf.places.find(id); old != shelf.places.end()) {
      entry.number = old->second->number;
      remove_locked(tenant, old->second);
    }
    if (entry.bytes > limits_.bytes_max) return false;
    while (entries_ + 1 > limits_.entries_max || bytes_ + entry.bytes > limits_.bytes_max) give_up_locked();
    bytes_ += entry.bytes;
    shelf.bytes += entry.bytes;
    ++entries_;
    shelf.entries.push_back(std::move(entry));
    shelf.places[id] = std::prev(shelf.entries.end());
    return true;
  }

  std::optional<Place> find_locked(std::uint64_t tenant, const std::string& id) {
    expire_locked();
    Shelf& shelf = shelves_[tenant];
    const auto place = shelf.places.find(id);
    return place == shelf.places.end() ? std::nullopt : std::optional<Place>(place->second);
  }

  void remove_locked(std::uint64_t tenant, Place place) {
    Shelf& shelf = shelves_[tenant];
    shelf.bytes -= place->bytes;
    bytes_ -= place->bytes;
    --entries_;
    shelf.places.erase(place->id);
    shelf.entries.erase(place);
  }

  void expire_locked() {
    const std::int64_t oldest_us = clock_.now_us() - limits_.ttl_us;
    for (auto& [tenant, shelf] : shelves_)
      while (!shelf.entries.empty() && shelf.entries.front().written_us < oldest_us)
        remove_locked(tenant, shelf.entries.begin());
  }

  void give_up_locked() {
    auto largest = shelves_.begin();
    for (auto shelf = shelves_.begin(); shelf != shelves_.end(); ++shelf)
      if (shelf->second.bytes > largest->second.bytes) largest = shelf;
    remove_locked(largest->first, largest->second.entries.begin());
  }

  static constexpr std::size_t kEntryBytes = 256;  // list and table nodes, the value's own header

  const StoreLimits limits_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Shelf> shelves_;  // one a key
  std::size_t entries_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t next_number_ = 0;
};

}  // namespace met::storage
