#include "storage/object_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/concat.h"

namespace met::storage {
namespace {

constexpr std::int64_t kApplication = 0x4D657453;  // "MetS", as the file's application_id
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kRowBytes = 128;  // a row's other columns and its places in the indexes, about
constexpr int kItems = kKinds;           // in `usage`, behind the kinds of objects

// Texts come last, so that whoever looks at the other columns does not read through them. `usage` follows from the two
// tables by triggers.
constexpr const char* kSchema = R"(
CREATE TABLE object (
  number INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL, tenant INTEGER NOT NULL, id TEXT NOT NULL,
  written INTEGER NOT NULL, bytes INTEGER NOT NULL, state INTEGER NOT NULL, base INTEGER NOT NULL,
  own INTEGER NOT NULL, tip INTEGER NOT NULL, aside TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (tenant, kind, id));
CREATE INDEX object_by_tenant ON object (tenant, written, kind);
CREATE INDEX object_by_time ON object (written);
CREATE TABLE item (
  number INTEGER PRIMARY KEY AUTOINCREMENT, parent INTEGER NOT NULL, uses INTEGER NOT NULL, tenant INTEGER NOT NULL,
  bytes INTEGER NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE usage (
  tenant INTEGER, kind INTEGER, entries INTEGER NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (tenant, kind)) WITHOUT ROWID;
CREATE TRIGGER object_comes AFTER INSERT ON object BEGIN
  INSERT INTO usage VALUES (new.tenant, new.kind, 1, new.bytes)
    ON CONFLICT DO UPDATE SET entries = entries + 1, bytes = bytes + new.bytes;
END;
CREATE TRIGGER object_changes AFTER UPDATE OF bytes ON object BEGIN
  UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE tenant = old.tenant AND kind = old.kind;
END;
CREATE TRIGGER object_goes AFTER DELETE ON object BEGIN
  UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE tenant = old.tenant AND kind = old.kind;
END;
CREATE TRIGGER item_comes AFTER INSERT ON item BEGIN
  INSERT INTO usage VALUES (new.tenant, 3, 1, new.bytes)
    ON CONFLICT DO UPDATE SET entries = entries + 1, bytes = bytes + new.bytes;
END;
CREATE TRIGGER item_goes AFTER DELETE ON item BEGIN
  UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE tenant = old.tenant AND kind = 3;
END;
CREATE TRIGGER usage_ends AFTER UPDATE ON usage WHEN new.entries = 0 BEGIN
  DELETE FROM usage WHERE tenant = new.tenant AND kind = new.kind;
END;
)";
static_assert(kItems == 3, "the triggers name it");

std::int64_t bytes_of(const std::string& id, std::size_t texts) {
  return static_cast<std::int64_t>(id.size() + texts) + kRowBytes;
}

/// A directory and a file that nobody else may read, unless they are there already.
Result<std::string> make_file(const std::string& directory) {
  const auto refused = [&](const char* what) {
    return fail(ErrorCode::kIo, concat("cannot ", what, " '", directory, "': ", std::strerror(errno)));
  };
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return refused("make the directory");
  std::string path = concat(directory, "/objects.sqlite");
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 && errno != EEXIST) return refused("write into");
  if (file >= 0) ::close(file);
  return path;
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> ObjectStore::open(const std::string& directory,
                                                       const StoreLimits& limits, const Clock& clock) {
  std::string path;
  if (!directory.empty()) {
    MET_ASSIGN(path, make_file(directory));
  }
  MET_ASSIGN(auto database, Database::open(path));
  if (database->read_only()) return fail(ErrorCode::kIo, concat("'", path, "' cannot be written"));
  std::unique_ptr<ObjectStore> store(new ObjectStore(std::move(database), limits, clock));
  MET_TRY(store->prepare(path));
  return store;
}

// The lock is kept from the first look on: a second process is refused rather than made to wait, and the index of the
// write-ahead log lives in memory. A commit is a write, which outlives the process; `flush` brings it to the disk.
Result<void> ObjectStore::prepare(const std::string& path) {
  Database& db = *database_;
  db.script("PRAGMA locking_mode = EXCLUSIVE");
  const std::int64_t application = db.integer("PRAGMA application_id");
  const std::int64_t version = db.integer("PRAGMA user_version");
  const bool empty = db.integer("SELECT count(*) FROM sqlite_master") == 0;
  if (auto error = db.take_error()) return std::unexpected(*error);
  if (application != kApplication && !(empty && application == 0))
    return fail(ErrorCode::kDataLoss, concat("'", path, "' is a SQLite file of something else"));
  if (version > kVersion)
    return unsupported({}, concat("'", path, "' was written by a newer version: its format is ", version,
                                  ", this version reads up to ", kVersion));
  if (!path.empty()) db.script("PRAGMA journal_mode = WAL");
  db.script(
      "PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY;"
      "PRAGMA journal_size_limit = 67108864");
  if (!empty) {
    std::string state;
    {
      Rows rows = db.query("PRAGMA quick_check(1)");
      if (rows.next()) state = rows.text(0);
    }
    if (auto error = db.take_error()) return std::unexpected(*error);
    if (state != "ok") return fail(ErrorCode::kDataLoss, concat("'", path, "' is damaged: ", state));
  } else {
    db.script("BEGIN IMMEDIATE");
    db.script(kSchema);
    db.script(concat("PRAGMA application_id = ", kApplication, "; PRAGMA user_version = ", kVersion).c_str());
    db.script("COMMIT");
  }
  db.script("CREATE INDEX IF NOT EXISTS item_by_id ON item (tenant, id)");
  if (auto error = db.take_error()) return std::unexpected(*error);
  return {};
}

// ---- transactions

void ObjectStore::begin() {
  database_->run("BEGIN");
  expire();
}

Result<void> ObjectStore::commit() {
  database_->run("COMMIT");
  std::optional<Error> error = database_->take_error();
  if (!error) return {};
  if (database_->in_transaction()) database_->run("ROLLBACK");
  database_->take_error();
  return std::unexpected(std::move(*error));
}

Result<void> ObjectStore::flush() {
  database_->script("PRAGMA wal_checkpoint(PASSIVE)");
  if (auto error = database_->take_error()) return std::unexpected(std::move(*error));
  return {};
}

void ObjectStore::begin_operation() { database_->run("SAVEPOINT operation"); }

ObjectStore::Ended ObjectStore::end_operation(bool keep) {
  Ended out{.error = database_->take_error()};
  out.lost = !database_->in_transaction();
  if (out.lost) {
    database_->run("BEGIN");
    return out;
  }
  if (out.error || !keep) database_->run("ROLLBACK TO operation");
  database_->run("RELEASE operation");
  return out;
}

// ---- objects

Result<void> ObjectStore::put(const Key& key, const Object& object) {
  Database& db = *database_;
  const std::int64_t bytes = bytes_of(key.id, object.body.size() + object.aside.size());
  const std::int64_t now = clock_.now_us();
  std::int64_t number = 0;
  ItemNumber before = 0;
  {
    Rows old = db.query("SELECT number, tip FROM object WHERE tenant = ? AND kind = ? AND id = ?", key.tenant,
                        key.kind, key.id);
    if (old.next()) {
      number = old.integer(0);
      before = old.integer(1);
    }
  }
  db.run("UPDATE item SET uses = uses + 1 WHERE number = ?", object.tip);
  if (number != 0) {
    db.run(
        "UPDATE object SET written = ?, bytes = ?, state = ?, base = ?, own = ?, tip = ?, aside = ?, body = ?"
        " WHERE number = ?",
        now, bytes, static_cast<int>(object.state), object.base, object.own, object.tip, object.aside,
        object.body, number);
    release(before);
  } else {
    db.run(
        "INSERT INTO object (tenant, kind, id, written, bytes, state, base, own, tip, aside, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        key.tenant, key.kind, key.id, now, bytes, static_cast<int>(object.state), object.base, object.own,
        object.tip, object.aside, object.body);
    number = db.last_number();
  }
  return make_room(key.kind, number);
}

std::optional<Object> ObjectStore::get(const Key& key) {
  Rows rows = database_->query(
      "SELECT state, base, own, tip, body FROM object WHERE tenant = ? AND kind = ? AND id = ?", key.tenant,
      key.kind, key.id);
  if (!rows.next()) return std::nullopt;
  return Object{.state = static_cast<State>(rows.integer(0)),
                .base = rows.integer(1),
                .own = rows.integer(2),
                .tip = rows.integer(3),
                .body = std::string(rows.text(4))};
}

std::string ObjectStore::aside(const Key& key) {
  Rows rows = database_->query("SELECT aside FROM object WHERE tenant = ? AND kind = ? AND id = ?",
                               key.tenant, key.kind, key.id);
  return rows.next() ? std::string(rows.text(0)) : std::string();
}

bool ObjectStore::erase(const Key& key) {
  const std::int64_t number = database_->integer(
      "SELECT number FROM object WHERE tenant = ? AND kind = ? AND id = ?", key.tenant, key.kind, key.id);
  if (number != 0) remove(number);
  return number != 0;
}

std::vector<Listed> ObjectStore::list(int kind, std::uint64_t tenant) {
  std::vector<Listed> out;
  Rows rows = database_->query("SELECT id, aside FROM object WHERE tenant = ? AND kind = ? ORDER BY number",
                               tenant, kind);
  while (rows.next()) out.push_back({std::string(rows.text(0)), std::string(rows.text(1))});
  return out;
}

std::vector<Key> ObjectStore::open_objects() {
  std::vector<Key> out;
  Rows rows =
      database_->query("SELECT kind, tenant, id FROM object WHERE state = ?", static_cast<int>(State::kOpen));
  while (rows.next())
    out.push_back({.kind = static_cast<int>(rows.integer(0)),
                   .tenant = static_cast<std::uint64_t>(rows.integer(1)),
                   .id = std::string(rows.text(2))});
  return out;
}

// ---- items

ItemNumber ObjectStore::append(std::uint64_t tenant, ItemNumber tip, std::span<const NewItem> items) {
  for (const NewItem& item : items) {
    database_->run("UPDATE item SET uses = uses + 1 WHERE number = ?", tip);
    database_->run("INSERT INTO item (parent, uses, tenant, bytes, id, body) VALUES (?, 0, ?, ?, ?, ?)", tip,
                   tenant, bytes_of(item.id, item.body.size()), item.id, item.body);
    tip = database_->last_number();
  }
  return tip;
}

bool ObjectStore::stands(ItemNumber item) {
  return item == 0 || database_->integer("SELECT 1 FROM item WHERE number = ?", item) == 1;
}

ItemNumber ObjectStore::find_item(std::uint64_t tenant, std::string_view id) {
  return database_->integer(
      "SELECT number FROM item WHERE tenant = ? AND id = ? ORDER BY number DESC LIMIT 1", tenant, id);
}

std::vector<ItemRef> ObjectStore::chain(ItemNumber base, ItemNumber tip) {
  std::vector<ItemRef> out;
  while (tip != base && tip != 0) {
    Rows rows = database_->query("SELECT parent, id FROM item WHERE number = ?", tip);
    if (!rows.next()) break;
    out.push_back({.number = tip, .id = std::string(rows.text(1))});
    tip = rows.integer(0);
  }
  std::ranges::reverse(out);
  return out;
}

std::string ObjectStore::item_body(ItemNumber item) {
  Rows rows = database_->query("SELECT body FROM item WHERE number = ?", item);
  return rows.next() ? std::string(rows.text(0)) : std::string();
}

// ---- bounds

std::int64_t ObjectStore::entries(int kind) {
  return database_->integer("SELECT sum(entries) FROM usage WHERE kind = ?", kind);
}
std::int64_t ObjectStore::bytes() { return database_->integer("SELECT sum(bytes) FROM usage"); }

void ObjectStore::expire() {
  const std::int64_t oldest = clock_.now_us() - limits_.ttl_us;
  while (const std::int64_t number = database_->integer(
             "SELECT number FROM object WHERE written < ? ORDER BY written LIMIT 1", oldest))
    remove(number);
}

Result<void> ObjectStore::make_room(int kind, std::int64_t kept) {
  while (entries(kind) > limits_.entries_max[static_cast<std::size_t>(kind)]) {
    const std::int64_t tenant = database_->integer(
        "SELECT tenant FROM usage AS u WHERE kind = ?1 AND EXISTS"
        " (SELECT 1 FROM object AS o WHERE o.tenant = u.tenant AND o.kind = ?1 AND o.number <> ?2)"
        " ORDER BY entries DESC LIMIT 1",
        kind, kept);
    remove(database_->integer(
        "SELECT number FROM object WHERE tenant = ? AND kind = ? AND number <> ? ORDER BY written, number"
        " LIMIT 1",
        tenant, kind, kept));
  }
  while (bytes() > limits_.bytes_max) {
    const std::int64_t tenant = database_->integer(
        "SELECT tenant FROM usage AS u WHERE EXISTS"
        " (SELECT 1 FROM object AS o WHERE o.tenant = u.tenant AND o.number <> ?)"
        " GROUP BY tenant ORDER BY sum(bytes) DESC LIMIT 1",
        kept);
    const std::int64_t number = database_->integer(
        "SELECT number FROM object WHERE tenant = ? AND number <> ? ORDER BY written, number LIMIT 1", tenant,
        kept);
    if (number == 0 && !database_->failed())
      return fail(
          ErrorCode::kPayloadTooLarge,
          concat("what is to be stored is larger than --store-max-bytes (", limits_.bytes_max, ") allows"));
    remove(number);
  }
  return {};
}

void ObjectStore::remove(std::int64_t number) {
  const ItemNumber tip = database_->integer("SELECT tip FROM object WHERE number = ?", number);
  database_->run("DELETE FROM object WHERE number = ?", number);
  release(tip);
}

void ObjectStore::release(ItemNumber tip) {
  while (tip != 0 && !database_->failed()) {
    database_->run("UPDATE item SET uses = uses - 1 WHERE number = ?", tip);
    ItemNumber parent = 0;
    {
      Rows rows = database_->query("SELECT uses, parent FROM item WHERE number = ?", tip);
      if (!rows.next() || rows.integer(0) > 0) return;
      parent = rows.integer(1);
    }
    database_->run("DELETE FROM item WHERE number = ?", tip);
    tip = parent;
  }
}

}  // namespace met::storage
