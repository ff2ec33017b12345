// The little of SQLite that the registry needs: statements with bound values, errors as one line
// that names the file, the cause and the remedy. SQLite's own header stays out of this one.
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

// The Error for an SQLite result code (extended or primary). `system_errno` is what the operating
// system said, 0 if it was not asked.
Error database_error(int sqlite_code, const std::string& path, std::string_view doing,
                     std::string_view detail, int system_errno);

class Database {
 public:
  // Opens or makes the file. REQUIRES: nobody else has it open for writing.
  static Result<Database> open(const std::string& path);
  Database(Database&&) noexcept = default;
  Database& operator=(Database&&) noexcept = default;
  ~Database() = default;

  // Runs one statement with `values` bound to its ?1, ?2, …. Returns its rows.
  // Errors: as database_error.
  Result<std::vector<Row>> run(std::string_view sql, std::span<const Value> values = {});
  // Rows changed by the last statement.
  int64_t changes() const;
  // `body` inside one transaction: committed (durable on return) if it succeeds, else rolled back.
  Status transaction(const std::function<Status()>& body);

  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  Error error(int code, std::string_view doing) const;

  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
};

}  // namespace itif::control
