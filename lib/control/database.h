// A small SQLite wrapper for the registry: statements with bound values, and one-line errors that
// name the file, the cause and the remedy. This header does not include SQLite's.
//
// SQL may call itif_checksum(value, …): the 128-bit BLAKE2b of the values and their types, as hex
// digits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

struct sqlite3;

namespace itif::control {

using Blob = std::vector<std::byte>;
using Value = std::variant<int64_t, std::string, Blob>;
using Row = std::vector<Value>;

// Returns the Error for an SQLite result code (extended or primary). `system_errno` is the errno of
// the failed system call, 0 if none.
Error database_error(int sqlite_code, const std::string& path, std::string_view doing,
                     std::string_view detail, int system_errno);

class Database {
 public:
  // Opens or creates the file. REQUIRES: no other connection writes to it.
  static Result<Database> open(const std::string& path);
  // Makes an empty one in memory.
  static Result<Database> make_in_memory();
  // Returns a copy, in memory, of a file that another process may have open. Errors: also
  // kNotFound.
  static Result<Database> copy(const std::string& path);
  Database(Database&&) noexcept = default;
  Database& operator=(Database&&) noexcept = default;
  ~Database() = default;

  // Runs one statement with `values` bound to its ?1, ?2, …. Returns its rows.
  // Errors: as database_error.
  Result<std::vector<Row>> run(std::string_view sql, std::span<const Value> values = {});
  // Returns the number of rows that the last statement changed.
  int64_t changes() const;
  // Runs `body` in one transaction: commits (durable on return) if it succeeds, else rolls back.
  Status transaction(const std::function<Status()>& body);

  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  static Result<Database> open(const std::string& path, int flags);
  Error error(int code, std::string_view doing) const;

  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
};

}  // namespace itif::control
