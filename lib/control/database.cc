#include "control/database.h"

#include <fmt/format.h>
#include <sodium/crypto_generichash.h>
#include <sqlite3.h>

#include <array>
#include <cerrno>

#include "base/check.h"
#include "control/hex.h"

namespace itif::control {
namespace {

// A backup (`sqlite3 registry.db .backup`) may hold the file for a moment; longer is an error.
constexpr int kBusyTimeoutMs = 2000;
constexpr size_t kChecksumBytes = 16;

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

int bind(sqlite3_stmt* statement, int at, const Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value))
    return sqlite3_bind_int64(statement, at, *number);
  if (const auto* text = std::get_if<std::string>(&value))
    return sqlite3_bind_text64(statement, at, text->data(), text->size(), SQLITE_STATIC,
                               SQLITE_UTF8);
  const Blob& blob = std::get<Blob>(value);
  // A null pointer would bind NULL rather than an empty blob.
  return sqlite3_bind_blob64(statement, at,
                             blob.empty() ? "" : static_cast<const void*>(blob.data()), blob.size(),
                             SQLITE_STATIC);
}

Value column(sqlite3_stmt* statement, int at) {
  switch (sqlite3_column_type(statement, at)) {
    case SQLITE_INTEGER: return sqlite3_column_int64(statement, at);
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement, at));
      const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, at));
      return bytes ? Blob(bytes, bytes + size) : Blob{};
    }
    default: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, at));
      const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, at));
      return text ? std::string(text, size) : std::string();
    }
  }
}

// itif_checksum(…): each value with its type and length, so that different values never give the
// same bytes.
void checksum(sqlite3_context* context, int count, sqlite3_value** values) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, kChecksumBytes);
  const auto add = [&](const void* bytes, size_t size) {
    crypto_generichash_update(&state, static_cast<const unsigned char*>(bytes), size);
  };
  for (const std::span all(values, static_cast<size_t>(count)); sqlite3_value* const value : all) {
    const int type = sqlite3_value_type(value);
    const int64_t number = type == SQLITE_INTEGER ? sqlite3_value_int64(value) : 0;
    const bool has_bytes = type != SQLITE_INTEGER && type != SQLITE_NULL;
    const void* const bytes = has_bytes ? sqlite3_value_blob(value) : nullptr;
    const int64_t size = has_bytes ? sqlite3_value_bytes(value) : 0;
    const int64_t head[] = {type, number, size};
    add(head, sizeof head);
    if (bytes != nullptr) add(bytes, static_cast<size_t>(size));
  }
  std::array<std::byte, kChecksumBytes> hash;
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(hash.data()), hash.size());
  const std::string text = to_hex(hash);
  sqlite3_result_text(context, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

}  // namespace

Error database_error(int sqlite_code, const std::string& path, std::string_view doing,
                     std::string_view detail, int system_errno) {
  const std::string what = fmt::format("cannot {} {}", doing, path);
  const std::string why = system_errno != 0
                              ? fmt::format("{}, {}", detail, errno_text(system_errno))
                              : std::string(detail);
  const bool no_space = system_errno == ENOSPC || system_errno == EDQUOT;
  switch (no_space ? SQLITE_FULL : sqlite_code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Code::kUnavailable,
              fmt::format(
                  "{}: another program has it open for writing: close that (`fuser -v {}` names "
                  "it) and try again",
                  what, path)};
    case SQLITE_FULL:
      return {
          Code::kResourceExhausted,
          fmt::format("{}: the disk is full: free space on its file system and try again", what)};
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
      return {Code::kPermission,
              fmt::format("{}: {}: run as the file's owner or as root", what, why)};
    case SQLITE_CANTOPEN:
      return {system_errno == ENOENT ? Code::kNotFound : Code::kPermission,
              fmt::format("{}: {}: check that its directory exists and is yours", what, why)};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {Code::kCorrupt,
              fmt::format("{}: {}: restore it from a backup, or save what is readable (`sqlite3 {} "
                          ".recover`), move it away and add the tenants again",
                          what, why, path)};
    case SQLITE_IOERR:
      return {Code::kUnavailable,
              fmt::format("{}: {}: check the disk (dmesg) and its quota", what, why)};
    case SQLITE_CONSTRAINT: return {Code::kAlreadyExists, fmt::format("{}: {}", what, why)};
    case SQLITE_NOMEM: return {Code::kResourceExhausted, fmt::format("{}: out of memory", what)};
    default: return {Code::kInternal, fmt::format("{}: {} (SQLite {})", what, why, sqlite_code)};
  }
}

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Error Database::error(int code, std::string_view doing) const {
  const int primary = code & 0xff;
  const bool system = primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN ||
                      primary == SQLITE_READONLY || primary == SQLITE_PERM;
  return database_error(code, path_, doing, sqlite3_errmsg(handle_.get()),
                        system ? sqlite3_system_errno(handle_.get()) : 0);
}

Result<Database> Database::open(const std::string& path, int flags) {
  sqlite3* handle = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &handle,
                             flags | SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, nullptr);
  if (handle == nullptr) return std::unexpected(database_error(SQLITE_NOMEM, path, "open", "", 0));
  Database database(handle, path);
  if (code == SQLITE_OK)
    code = sqlite3_create_function_v2(handle, "itif_checksum", -1,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY,
                                      nullptr, checksum, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return std::unexpected(database.error(code, "open"));
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  return database;
}

Result<Database> Database::open(const std::string& path) {
  return open(path, SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW);
}

Result<Database> Database::make_in_memory() {
  return open(":memory:", 0);
}

Result<Database> Database::copy(const std::string& path) {
  ITIF_ASSIGN(Database source, open(path, SQLITE_OPEN_NOFOLLOW));
  ITIF_ASSIGN(Database copied, make_in_memory());
  copied.path_ = path;
  sqlite3* const handle = copied.handle_.get();
  sqlite3_backup* backup = sqlite3_backup_init(handle, "main", source.handle_.get(), "main");
  if (backup == nullptr) return std::unexpected(copied.error(sqlite3_errcode(handle), "copy"));
  sqlite3_backup_step(backup, -1);  // its error is also that of finish
  if (const int finished = sqlite3_backup_finish(backup); finished != SQLITE_OK)
    return std::unexpected(copied.error(finished, "copy"));
  return copied;
}

Result<std::vector<Row>> Database::run(std::string_view sql, std::span<const Value> values) {
  sqlite3_stmt* raw = nullptr;
  int code =
      sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  Statement statement(raw);
  // All SQL is constant text of this program, so its first word names the access.
  const bool reads = sql.starts_with("SELECT") || sql.starts_with("PRAGMA");
  const std::string_view doing = reads ? "read" : "write to";
  if (code != SQLITE_OK) return std::unexpected(error(code, doing));
  for (size_t i = 0; i < values.size(); ++i) {
    code = bind(statement.get(), static_cast<int>(i + 1), values[i]);
    if (code != SQLITE_OK) return std::unexpected(error(code, doing));
  }
  std::vector<Row> rows;
  while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) {
    Row& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement.get()); ++i)
      row.push_back(column(statement.get(), i));
  }
  if (code != SQLITE_DONE) return std::unexpected(error(code, doing));
  return rows;
}

int64_t Database::changes() const {
  return sqlite3_changes64(handle_.get());
}

Status Database::transaction(const std::function<Status()>& body) {
  ITIF_TRY(run("BEGIN IMMEDIATE"));
  Status result = body();
  if (result) {
    auto committed = run("COMMIT");
    if (committed) return {};
    result = std::unexpected(committed.error());
  }
  // After some errors (a full disk) SQLite has rolled back already.
  if (sqlite3_get_autocommit(handle_.get()) == 0) {
    if (auto undone = run("ROLLBACK"); !undone) return std::unexpected(undone.error());
  }
  return result;
}

}  // namespace itif::control
