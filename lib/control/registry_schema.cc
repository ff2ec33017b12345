#include "control/registry_schema.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "control/registry_checksum.h"
#include "json/json_file.h"

namespace itif::control {
namespace {

constexpr int64_t kApplicationId = 0x69746966;  // "itif", in the file's header

// kMigrations[n] upgrades schema version n (PRAGMA user_version) to n + 1. Never edit a released
// entry; append a new one. A new setting (tenant/settings.h) needs
// "ALTER TABLE tenant ADD COLUMN <name> INTEGER NOT NULL DEFAULT <value>".
const std::vector<std::vector<std::string_view>> kMigrations = {
    {"CREATE TABLE tenant ("
     " id INTEGER PRIMARY KEY,"
     " name TEXT NOT NULL UNIQUE,"
     " model_dir TEXT NOT NULL,"
     " group_name TEXT NOT NULL,"
     " slo_ns INTEGER NOT NULL,"
     " weight INTEGER NOT NULL,"
     " quota_rps INTEGER NOT NULL,"
     " auth INTEGER NOT NULL,"
     " state INTEGER NOT NULL,"
     " key_epoch INTEGER NOT NULL,"
     " key BLOB NOT NULL,"
     " previous_key_epoch INTEGER NOT NULL,"
     " previous_key BLOB NOT NULL,"  // empty: none
     " created_unix_ns INTEGER NOT NULL,"
     " updated_unix_ns INTEGER NOT NULL"
     ") STRICT",
     // Holds the last allocated id, so that a removed tenant's id is never reused.
     "CREATE TABLE sequence (last_id INTEGER NOT NULL) STRICT", "INSERT INTO sequence VALUES (0)"},
    {"CREATE TABLE group_setting (name TEXT PRIMARY KEY, planner TEXT NOT NULL) STRICT"},
    {"ALTER TABLE group_setting ADD COLUMN scheduler TEXT NOT NULL DEFAULT ''"},
    {"ALTER TABLE group_setting ADD COLUMN share_percent INTEGER NOT NULL DEFAULT 0"},
    // The active version is in the tenant's row.
    {"ALTER TABLE tenant ADD COLUMN version INTEGER NOT NULL DEFAULT 1",
     "ALTER TABLE tenant ADD COLUMN installed_unix_ns INTEGER NOT NULL DEFAULT 0",
     "ALTER TABLE tenant ADD COLUMN canary_percent INTEGER NOT NULL DEFAULT 0",
     "CREATE TABLE other_version ("
     " tenant_id INTEGER NOT NULL,"
     " number INTEGER NOT NULL,"
     " model_dir TEXT NOT NULL,"
     " installed_unix_ns INTEGER NOT NULL,"
     " state INTEGER NOT NULL,"  // tenant::VersionState
     " PRIMARY KEY (tenant_id, number)"
     ") STRICT"},
    {"ALTER TABLE tenant ADD COLUMN base_dir TEXT NOT NULL DEFAULT ''",
     "ALTER TABLE other_version ADD COLUMN base_dir TEXT NOT NULL DEFAULT ''"},
    // base/cpu_list.h; empty: the group has no CPUs of its own.
    {"ALTER TABLE group_setting ADD COLUMN cpus TEXT NOT NULL DEFAULT ''"},
    // registry_checksum.h
    {"ALTER TABLE tenant ADD COLUMN checksum TEXT NOT NULL DEFAULT ''",
     "ALTER TABLE other_version ADD COLUMN checksum TEXT NOT NULL DEFAULT ''",
     "ALTER TABLE group_setting ADD COLUMN checksum TEXT NOT NULL DEFAULT ''",
     "CREATE TABLE contents ("
     " identity TEXT NOT NULL,"
     " changes INTEGER NOT NULL,"
     " checksum TEXT NOT NULL"
     ") STRICT",
     "INSERT INTO contents VALUES (lower(hex(randomblob(16))), 0, '')"},
    {"ALTER TABLE group_setting ADD COLUMN weight INTEGER NOT NULL DEFAULT 1"},
    // tenant::Placement
    {"ALTER TABLE tenant ADD COLUMN placed_group TEXT NOT NULL DEFAULT ''",
     "ALTER TABLE tenant ADD COLUMN placed_vocab INTEGER NOT NULL DEFAULT 0",
     "ALTER TABLE tenant ADD COLUMN placed_positions INTEGER NOT NULL DEFAULT 0",
     "ALTER TABLE tenant ADD COLUMN placed_types INTEGER NOT NULL DEFAULT 0",
     "ALTER TABLE other_version ADD COLUMN placed_group TEXT NOT NULL DEFAULT ''",
     "ALTER TABLE other_version ADD COLUMN placed_vocab INTEGER NOT NULL DEFAULT 0",
     "ALTER TABLE other_version ADD COLUMN placed_positions INTEGER NOT NULL DEFAULT 0",
     "ALTER TABLE other_version ADD COLUMN placed_types INTEGER NOT NULL DEFAULT 0"},
    // tenant::Contents
    {"ALTER TABLE tenant ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
     "ALTER TABLE tenant ADD COLUMN file_stamp TEXT NOT NULL DEFAULT ''",
     "ALTER TABLE other_version ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
     "ALTER TABLE other_version ADD COLUMN file_stamp TEXT NOT NULL DEFAULT ''"},
};
constexpr int64_t kFirstWithChecksums = 8;

Result<int64_t> pragma_number(Database& database, std::string_view sql) {
  ITIF_ASSIGN(const auto rows, database.run(sql));
  if (rows.size() != 1 || !std::holds_alternative<int64_t>(rows[0].at(0)))
    return fail(Code::kCorrupt, fmt::format("{}: {} gave no number", database.path(), sql));
  return std::get<int64_t>(rows[0][0]);
}

Status migrate_from(Database& database, int64_t version) {
  const auto newest = static_cast<int64_t>(kMigrations.size());
  for (int64_t from = version; from < newest; ++from)
    for (const std::string_view sql : kMigrations[static_cast<size_t>(from)])
      ITIF_TRY(database.run(sql));
  ITIF_TRY(database.run(fmt::format("PRAGMA application_id = {}", kApplicationId)));
  ITIF_TRY(database.run(fmt::format("PRAGMA user_version = {}", newest)));
  return seal_all(database);
}

// Every table, index, view and trigger, and every column with its type.
Result<std::set<std::string>> parts_of(Database& database) {
  ITIF_ASSIGN(
      const auto rows,
      database.run("SELECT 'the ' || type || ' ' || name FROM sqlite_schema "
                   "WHERE name NOT LIKE 'sqlite_%' UNION ALL "
                   "SELECT 'the column ' || m.name || '.' || c.name || ' ' || c.type || "
                   "iif(c.\"notnull\", ' NOT NULL', '') || iif(c.pk, ' PRIMARY KEY ' || c.pk, '') "
                   "|| coalesce(' DEFAULT ' || c.dflt_value, '') "
                   "FROM sqlite_schema m JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table' "
                   "AND m.name NOT LIKE 'sqlite_%'"));
  std::set<std::string> parts;
  for (const Row& row : rows)
    if (const auto* part = std::get_if<std::string>(&row.at(0))) parts.insert(*part);
  return parts;
}

}  // namespace

Status check_integrity(Database& database) {
  ITIF_ASSIGN(const auto rows, database.run("PRAGMA integrity_check(1)"));
  const auto* text = rows.empty() ? nullptr : std::get_if<std::string>(&rows[0].at(0));
  if (text != nullptr && *text == "ok") return {};
  return fail(Code::kCorrupt,
              fmt::format("{} is damaged ({}): restore it from a backup, or save what is readable "
                          "(`sqlite3 {} .recover`), move it away and add the tenants again",
                          database.path(), text ? *text : "no answer", database.path()));
}

Status check_schema(Database& database) {
  ITIF_ASSIGN(Database model, Database::make_in_memory());
  ITIF_TRY(migrate_from(model, 0));
  ITIF_ASSIGN(const auto expected, parts_of(model));
  ITIF_ASSIGN(const auto found, parts_of(database));
  const auto wrong = [&](std::string_view how, const std::string& part) {
    return fail(Code::kCorrupt,
                fmt::format("{} {} {}: it is damaged, or another program has changed it: restore a "
                            "backup, or undo that change with sqlite3",
                            database.path(), how, json_file::shown(nlohmann::json(part))));
  };
  for (const std::string& part : found)
    if (!expected.contains(part)) return wrong("has an unknown part,", part);
  for (const std::string& part : expected)
    if (!found.contains(part)) return wrong("lacks", part);
  return {};
}

Result<int64_t> check_version(Database& database) {
  ITIF_ASSIGN(const int64_t application, pragma_number(database, "PRAGMA application_id"));
  ITIF_ASSIGN(const int64_t version, pragma_number(database, "PRAGMA user_version"));
  ITIF_ASSIGN(const int64_t tables, pragma_number(database, "SELECT count(*) FROM sqlite_schema"));
  if (application == 0 && version == 0 && tables == 0) return 0;
  if (application != kApplicationId || version < 1)
    return fail(Code::kCorrupt, database.path() +
                                    " is another program's database: set control.state_dir "
                                    "to a directory that only itifd uses");
  const auto newest = static_cast<int64_t>(kMigrations.size());
  if (version > newest)
    return fail(
        Code::kUnsupported,
        fmt::format("{} has schema version {} and this itifd knows up to {}: run the newer itifd "
                    "that wrote it, or restore the backup made before the upgrade",
                    database.path(), version, newest));
  return version;
}

Status migrate(Database& database, int64_t version) {
  const bool is_newest = version == static_cast<int64_t>(kMigrations.size());
  if (is_newest) ITIF_TRY(check_schema(database));
  bool is_sealed = is_newest;
  if (version >= kFirstWithChecksums) {
    ITIF_ASSIGN(const bool edited, verify_checksums(database));
    is_sealed = is_newest && !edited;
  }
  if (is_sealed) return {};
  // A file that is refused stays as it is.
  return database.transaction([&]() -> Status {
    ITIF_TRY(migrate_from(database, version));
    return check_schema(database);
  });
}

}  // namespace itif::control
