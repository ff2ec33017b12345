#include "control/registry_schema.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

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
};

Result<int64_t> pragma_number(Database& database, std::string_view sql) {
  ITIF_ASSIGN(const auto rows, database.run(sql));
  if (rows.size() != 1 || !std::holds_alternative<int64_t>(rows[0].at(0)))
    return fail(Code::kCorrupt, fmt::format("{}: {} gave no number", database.path(), sql));
  return std::get<int64_t>(rows[0][0]);
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

Status migrate(Database& database) {
  ITIF_ASSIGN(const int64_t application, pragma_number(database, "PRAGMA application_id"));
  ITIF_ASSIGN(const int64_t version, pragma_number(database, "PRAGMA user_version"));
  ITIF_ASSIGN(const int64_t tables, pragma_number(database, "SELECT count(*) FROM sqlite_schema"));
  if (application != kApplicationId && (application != 0 || version != 0 || tables != 0))
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
  for (int64_t from = version; from < newest; ++from) {
    ITIF_TRY(database.transaction([&]() -> Status {
      for (const std::string_view sql : kMigrations[static_cast<size_t>(from)])
        ITIF_TRY(database.run(sql));
      ITIF_TRY(database.run(fmt::format("PRAGMA application_id = {}", kApplicationId)));
      ITIF_TRY(database.run(fmt::format("PRAGMA user_version = {}", from + 1)));
      return {};
    }));
  }
  return {};
}

}  // namespace itif::control
