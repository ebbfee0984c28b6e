#include "storage/database.h"

#include <sqlite3.h>

#include <utility>

#include "core/concat.h"

namespace met::storage {
namespace {

ErrorCode kind_of(int code) {
  switch (code & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kIo;
  }
}

Error error_of(int code, const std::string& name, const char* message) {
  const std::string where = name.empty() ? "the store in memory" : concat("'", name, "'");
  switch (code & 0xFF) {
    case SQLITE_CORRUPT:
      return {kind_of(code), concat(where, " is damaged: ", message), {}};
    case SQLITE_NOTADB:
      return {kind_of(code), concat(where, " is no SQLite file"), {}};
    case SQLITE_BUSY:
      return {kind_of(code), concat(where, " is in use by another process"), {}};
    default:
      return {kind_of(code), concat(where, " cannot be used: ", message), {}};
  }
}

}  // namespace

Rows::~Rows() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);  // says again what next() has already said
  sqlite3_clear_bindings(statement_);
}

bool Rows::next() {
  if (statement_ == nullptr || database_.failed()) return false;
  const int code = sqlite3_step(statement_);
  return database_.check(code) && code == SQLITE_ROW;
}

std::int64_t Rows::integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::string_view Rows::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.empty() ? ":memory:" : path.c_str(), &handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> out(new Database(handle, path));
  if (!out->check(code)) return std::unexpected(*out->take_error());
  return out;
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

void Database::script(const char* sql) {
  if (!failed()) check(sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr));
}

std::int64_t Database::last_number() const { return sqlite3_last_insert_rowid(handle_); }
bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }
bool Database::read_only() const { return sqlite3_db_readonly(handle_, "main") != 0; }
std::optional<Error> Database::take_error() { return std::exchange(error_, std::nullopt); }

sqlite3_stmt* Database::prepared(const char* sql) {
  if (failed()) return nullptr;
  sqlite3_stmt*& statement = statements_[sql];
  if (statement == nullptr)
    check(sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
  MET_CHECK(statement == nullptr || sqlite3_stmt_busy(statement) == 0, sql);
  return statement;
}

void Database::bind_integer(sqlite3_stmt* statement, int place, std::int64_t value) {
  if (!failed()) check(sqlite3_bind_int64(statement, place, value));
}

void Database::bind_text(sqlite3_stmt* statement, int place, std::string_view value) {
  if (failed()) return;
  check(sqlite3_bind_text64(statement, place, value.data() == nullptr ? "" : value.data(), value.size(),
                            SQLITE_TRANSIENT, SQLITE_UTF8));
}

bool Database::check(int code) {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return true;
  if (!error_) error_ = error_of(code, name_, handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(code));
  return false;
}

}  // namespace met::storage
