// Objects that clients come back for: in a SQLite file or in memory, bounded in number and bytes, with expiry, each
// behind its tenant's key.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "storage/database.h"

namespace met::storage {

constexpr int kKinds = 3;

struct StoreLimits {
  std::array<std::int64_t, kKinds> entries_max{10'000, 10'000, 10'000};  ///< by kind
  std::int64_t bytes_max = 512 << 20;                                    ///< of all objects and items
  std::int64_t ttl_us = 86'400'000'000;                                  ///< since the last write
};

struct Key {
  int kind = 0;  ///< below kKinds
  std::uint64_t tenant = 0;
  std::string id;
};

/// An item's place in its chain; 0 is the beginning of every chain. A number is never used twice.
using ItemNumber = std::int64_t;

struct NewItem {
  std::string id;
  std::string body;
};

struct ItemRef {
  ItemNumber number = 0;
  std::string id;
};

enum class State : int {
  kWhole = 0,
  kOpen = 1,         ///< whoever makes it has not ended yet
  kInterrupted = 2,  ///< its maker's process has ended before it
};

/// A text, and a chain of items behind it. `base` and `own` mark places of the chain: what the object began
/// behind, and the end of what it was given; they may be anything for kinds that do without.
struct Object {
  State state = State::kWhole;
  ItemNumber base = 0;
  ItemNumber own = 0;
  ItemNumber tip = 0;
  std::string body;
  std::string aside;  ///< a second text, which is read on its own
};

struct Listed {
  std::string id;
  std::string aside;
};

/// Objects by key, and the items that they share. An item knows the one before it, so that a chain which many
/// objects continue is stored once; it goes with the last object or item that needs it. When a bound is met, the
/// tenant that holds the most gives up what it has not written for the longest time: nobody can push out what
/// belongs to others.
///
/// Used by one thread. A failure of the file is told by `end_operation` and `commit`; until then nothing more runs.
class ObjectStore {
 public:
  /// `directory` is made if it is not there; empty: in memory. `clock`: wall time, outlives the store. Errors: the
  /// file cannot be read or written, is damaged, foreign, of a newer version, or in use by another process.
  static Result<std::unique_ptr<ObjectStore>> open(const std::string& directory, const StoreLimits& limits,
                                                   const Clock& clock);

  // Transactions. What was committed to a file outlives the process, however it ends; what was flushed, the machine.
  /// Deletes what has expired, too.
  void begin();
  Result<void> commit();
  /// Between transactions.
  Result<void> flush();
  /// One operation of a transaction. Its error, if the file failed; then, and where it is not kept, it has changed
  /// nothing. `lost`: neither has what came before it in the transaction, which goes on anew.
  struct Ended {
    std::optional<Error> error;
    bool lost = false;
  };
  void begin_operation();
  Ended end_operation(bool keep);

  /// Adds or replaces; `object.tip` is an item that stands. Errors: kPayloadTooLarge, it is larger than everything
  /// together may be; the operation must not be kept.
  Result<void> put(const Key& key, const Object& object);
  /// The object without its aside; nothing: unknown, expired, given up, or another tenant's.
  std::optional<Object> get(const Key& key);
  std::string aside(const Key& key);
  bool erase(const Key& key);
  /// A tenant's objects of a kind, in the order in which they were first put.
  std::vector<Listed> list(int kind, std::uint64_t tenant);
  /// Those that are open.
  std::vector<Key> open_objects();

  /// Items behind `tip`, and the new tip. They go unless an object takes them in the same operation.
  ItemNumber append(std::uint64_t tenant, ItemNumber tip, std::span<const NewItem> items);
  bool stands(ItemNumber item);
  /// The newest item of the tenant with this id; 0: there is none.
  ItemNumber find_item(std::uint64_t tenant, std::string_view id);
  /// What lies behind `base` up to `tip`, oldest first.
  std::vector<ItemRef> chain(ItemNumber base, ItemNumber tip);
  std::string item_body(ItemNumber item);

  std::int64_t entries(int kind);
  /// Of all objects and items, near enough.
  std::int64_t bytes();

 private:
  ObjectStore(std::unique_ptr<Database> database, const StoreLimits& limits, const Clock& clock)
      : database_(std::move(database)), limits_(limits), clock_(clock) {}

  Result<void> prepare(const std::string& path);
  void expire();
  Result<void> make_room(int kind, std::int64_t kept);
  void remove(std::int64_t number);
  void release(ItemNumber tip);

  std::unique_ptr<Database> database_;
  const StoreLimits limits_;
  const Clock& clock_;
};

}  // namespace met::storage
