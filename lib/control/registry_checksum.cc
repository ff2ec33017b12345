#include "control/registry_checksum.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/log.h"
#include "json/json_file.h"

namespace itif::control {
namespace {

struct Table {
  std::string_view name, key;  // `key`: columns that name a row
};
constexpr Table kTables[] = {
    {"tenant", "id"}, {"other_version", "tenant_id, number"}, {"group_setting", "name"}};

// No registry reaches it. SQLite could not count on from the largest integer.
constexpr int64_t kMaxChanges = int64_t{1} << 62;

constexpr size_t kIdentityDigits = 32;

// A value for SQL in a message.
std::string shown(const Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  const auto* text = std::get_if<std::string>(&value);
  std::string quoted = json_file::shown(nlohmann::json(text != nullptr ? *text : ""));
  return "'" + quoted.substr(1, quoted.size() - 2) + "'";
}

std::string text_of(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? *text : "";
}

// As randomblob() makes it: 32 hexadecimal digits. An empty one would allow any registry
// (registry_mark.h).
bool is_identity(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr && text->size() == kIdentityDigits &&
         text->find_first_not_of("0123456789abcdef") == text->npos;
}

// The SQL of a row's checksum: of the table's name and all columns in order of their names, so that
// the order in which migrations added them has no influence.
Result<std::string> checksum_sql(Database& database, std::string_view table) {
  const Value name = std::string(table);
  ITIF_ASSIGN(const auto columns,
              database.run("SELECT name FROM pragma_table_info(?1) WHERE name <> 'checksum' "
                           "ORDER BY name",
                           {&name, 1}));
  std::string sql = fmt::format("itif_checksum('{}'", table);
  for (const Row& column : columns) {
    std::string quoted;
    for (const char c : text_of(column.at(0))) quoted += c == '"' ? "\"\"" : std::string(1, c);
    sql += fmt::format(", \"{}\"", quoted);
  }
  return sql + ")";
}

std::unexpected<Error> damaged(const Database& database, const std::string& what,
                               std::string_view table, const std::string& condition) {
  return fail(Code::kCorrupt,
              fmt::format("{} is damaged, or another program has changed it: {} does not match its "
                          "checksum: restore a backup, or look at it and accept it: sqlite3 {} "
                          "\"UPDATE {} SET checksum = '{}'{}\"",
                          database.path(), what, database.path(), table, kEdited, condition));
}

// The checksum of all rows' checksums and of what no row has.
Result<std::string> contents_checksum(Database& database) {
  ITIF_ASSIGN(const RegistryContents contents, read_contents(database));
  std::string all = fmt::format("{} {} {}", contents.identity, contents.changes, contents.last_id);
  for (const Table& table : kTables) {
    all += fmt::format("\n{}", table.name);
    ITIF_ASSIGN(const auto rows, database.run(fmt::format("SELECT checksum FROM {} ORDER BY {}",
                                                          table.name, table.key)));
    for (const Row& row : rows) all += " " + text_of(row.at(0));
  }
  const Value value = std::move(all);
  ITIF_ASSIGN(const auto checksum, database.run("SELECT itif_checksum(?1)", {&value, 1}));
  return text_of(checksum.at(0).at(0));
}

}  // namespace

Status seal_rows(Database& database, std::string_view table, std::string_view condition,
                 std::span<const Value> values) {
  ITIF_ASSIGN(const std::string checksum, checksum_sql(database, table));
  ITIF_TRY(database.run(
      fmt::format("UPDATE {} SET checksum = {} WHERE {}", table, checksum, condition), values));
  return {};
}

Status seal_contents(Database& database) {
  ITIF_TRY(database.run("UPDATE contents SET changes = changes + 1"));
  ITIF_ASSIGN(const Value checksum, contents_checksum(database));
  ITIF_TRY(database.run("UPDATE contents SET checksum = ?1", {&checksum, 1}));
  return {};
}

Status seal_all(Database& database) {
  for (const Table& table : kTables) ITIF_TRY(seal_rows(database, table.name, "true", {}));
  return seal_contents(database);
}

Result<RegistryContents> read_contents(Database& database) {
  ITIF_ASSIGN(const auto rows, database.run("SELECT identity, changes, last_id FROM contents, "
                                            "sequence"));
  const auto* changes = rows.size() == 1 ? std::get_if<int64_t>(&rows[0].at(1)) : nullptr;
  const auto* last_id = rows.size() == 1 ? std::get_if<int64_t>(&rows[0].at(2)) : nullptr;
  if (changes == nullptr || last_id == nullptr || *changes < 0 || *last_id < 0 ||
      *last_id > UINT32_MAX || *changes > kMaxChanges || !is_identity(rows[0].at(0)))
    return fail(Code::kCorrupt,
                fmt::format("{}: tables contents and sequence must have one row each, with an "
                            "identity of {} hexadecimal digits, changes from 0 to {} and last_id "
                            "from 0 to {}: restore a backup",
                            database.path(), kIdentityDigits, kMaxChanges, UINT32_MAX));
  return RegistryContents{text_of(rows[0].at(0)), static_cast<uint64_t>(*changes),
                          static_cast<uint32_t>(*last_id)};
}

Result<bool> verify_checksums(Database& database) {
  bool edited = false;
  for (const Table& table : kTables) {
    ITIF_ASSIGN(const std::string checksum, checksum_sql(database, table.name));
    ITIF_ASSIGN(const auto rows,
                database.run(fmt::format("SELECT checksum, {0}, {1} FROM {2} WHERE checksum <> {0} "
                                         "ORDER BY {1}",
                                         checksum, table.key, table.name)));
    for (const Row& row : rows) {
      std::string values;
      for (size_t i = 2; i < row.size(); ++i) values += (i > 2 ? ", " : "") + shown(row[i]);
      const std::string which =
          fmt::format("the row of table {} with {} = {}", table.name, table.key, values);
      if (text_of(row[0]) != kEdited)
        return damaged(database, which, table.name,
                       fmt::format(" WHERE ({}) = ({})", table.key, values));
      log::warning("registry: {} was edited by hand: accepted", which);
      edited = true;
    }
  }
  ITIF_ASSIGN(const auto rows, database.run("SELECT checksum FROM contents"));
  const std::string found = rows.size() == 1 ? text_of(rows[0].at(0)) : "";
  ITIF_ASSIGN(const std::string expected, contents_checksum(database));
  if (found == kEdited && !edited) log::warning("registry: rows were edited by hand: accepted");
  if (edited || found == kEdited) return true;
  if (found != expected) return damaged(database, "the set of all rows", "contents", "");
  return false;
}

}  // namespace itif::control
