// SQLite behind a small interface: one connection, used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "core/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace met::storage {

class Database;

/// The rows of one statement, one after the other. One at a time for each statement text.
class Rows {
 public:
  ~Rows();
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  /// The next row. False: there is none, or the database has failed.
  bool next();
  std::int64_t integer(int column) const;
  /// Until the next row.
  std::string_view text(int column) const;

 private:
  friend class Database;
  Rows(Database& database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}

  Database& database_;
  sqlite3_stmt* statement_;  // none: the database has failed
};

/// Statements run until one fails; from then on nothing runs until `take_error`, so that a caller may ask once
/// at the end of what belongs together.
class Database {
 public:
  /// An empty path: in memory. Errors: kIo, kDataLoss, kUnavailable (another process has it) naming the path.
  static Result<std::unique_ptr<Database>> open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// `sql` is a literal: its address names the prepared statement. Values are integers and texts.
  template <class... Values>
  Rows query(const char* sql, const Values&... values) {
    sqlite3_stmt* const statement = prepared(sql);
    int place = 0;
    (bind(statement, ++place, values), ...);
    return Rows(*this, statement);
  }
  template <class... Values>
  void run(const char* sql, const Values&... values) {
    Rows rows = query(sql, values...);
    while (rows.next()) {
    }
  }
  /// The only value of the only row; 0 where there is none.
  template <class... Values>
  std::int64_t integer(const char* sql, const Values&... values) {
    Rows rows = query(sql, values...);
    return rows.next() ? rows.integer(0) : 0;
  }
  /// Any number of statements without values.
  void script(const char* sql);

  std::int64_t last_number() const;
  bool in_transaction() const;
  bool read_only() const;
  bool failed() const { return error_.has_value(); }
  /// What has failed, once.
  std::optional<Error> take_error();

 private:
  friend class Rows;
  Database(sqlite3* handle, std::string name) : handle_(handle), name_(std::move(name)) {}

  sqlite3_stmt* prepared(const char* sql);
  template <class Value>
  void bind(sqlite3_stmt* statement, int place, const Value& value) {
    if constexpr (std::is_integral_v<Value>) {
      bind_integer(statement, place, static_cast<std::int64_t>(value));
    } else {
      bind_text(statement, place, value);
    }
  }
  void bind_integer(sqlite3_stmt* statement, int place, std::int64_t value);
  void bind_text(sqlite3_stmt* statement, int place, std::string_view value);
  /// True: the code is no failure.
  bool check(int code);

  sqlite3* handle_;
  const std::string name_;  // for messages
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
  std::optional<Error> error_;
};

}  // namespace met::storage
