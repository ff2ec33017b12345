#include "control/registry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/cpu_list.h"
#include "base/log.h"
#include "control/registry_checksum.h"
#include "control/registry_mark.h"
#include "control/registry_rows.h"
#include "control/registry_schema.h"

namespace itif::control {
namespace {

// Creates the file with mode 0600 before SQLite opens it; SQLite copies the mode to -wal and -shm.
Status make_private_file(const std::string& path) {
  Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    return fail(Code::kPermission, fmt::format("cannot open {}: {}: run as its owner or as root",
                                               path, errno_text(errno)));
  return check_mode(path, 077);
}

// "?1, ?2, …" for the values of a row.
std::string parameters(size_t count) {
  std::string list = "?1";
  for (size_t i = 2; i <= count; ++i) list += fmt::format(", ?{}", i);
  return list;
}

Value id_value(uint32_t id) {
  return static_cast<int64_t>(id);
}

// Replaces the versions that are not active. REQUIRES: in a transaction.
Status put_versions(Database& database, const tenant::Record& record) {
  const Value id = id_value(record.id);
  ITIF_TRY(database.run("DELETE FROM other_version WHERE tenant_id = ?1", {&id, 1}));
  for (const tenant::Version& version : record.others) {
    const Value values[] = {id,
                            static_cast<int64_t>(version.number),
                            version.model_dir,
                            version.base_dir,
                            static_cast<int64_t>(version.installed_unix_ns),
                            static_cast<int64_t>(version.state),
                            version.placement.group,
                            static_cast<int64_t>(version.placement.vocab),
                            static_cast<int64_t>(version.placement.max_positions),
                            static_cast<int64_t>(version.placement.type_vocab),
                            version.contents.digest,
                            version.contents.stamp};
    ITIF_TRY(database.run(fmt::format("INSERT INTO other_version ({}) VALUES ({})", kVersionColumns,
                                      parameters(std::size(values))),
                          values));
  }
  return seal_rows(database, "other_version", "tenant_id = ?1", {&id, 1});
}

std::string path_in(const std::string& state_dir) {
  return state_dir + "/registry.db";
}

Result<FileLock> lock_registry(const std::string& state_dir) {
  return FileLock::acquire(state_dir + "/registry.lock",
                           "another itifd keeps its tenants there: stop that one, or set "
                           "control.state_dir to another directory");
}

// Checks a database and upgrades its schema. `mark`: null of a copy.
Status prepare(Database& database, const RegistryMark* mark, const std::string& state_dir) {
  ITIF_TRY(check_integrity(database));
  ITIF_ASSIGN(const int64_t version, check_version(database));
  if (version == 0 && mark != nullptr && !mark->identity.empty())
    return lost_registry(*mark, state_dir);
  return migrate(database, version);
}

// Statements that work on every intact registry fail on a damaged one for any reason.
std::unexpected<Error> as_damage(Error error) {
  if (error.code != Code::kInternal) return std::unexpected(std::move(error));
  return fail(Code::kCorrupt, error.message + ": it is damaged: restore a backup");
}

// Returns an error if the registry has a mark but is gone. Asked before a new file is made.
Status check_exists(const std::string& path, const RegistryMark& mark, bool must_exist,
                    const std::string& state_dir) {
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0 && info.st_size > 0;
  return exists || !must_exist ? Status() : lost_registry(mark, state_dir);
}

Result<Database> open_and_check(const std::string& state_dir) {
  const std::string path = path_in(state_dir);
  ITIF_ASSIGN(const std::optional<RegistryMark> found, read_mark(state_dir));
  RegistryMark mark = found.value_or(RegistryMark());
  mark.last_id = std::max(mark.last_id, remembered_id(state_dir));
  // An administrator's mark has no identity, and accepts that there is none.
  const bool must_exist = found ? !mark.identity.empty() : mark.last_id > 0;
  ITIF_TRY(check_exists(path, mark, must_exist, state_dir));
  if (!found && mark.last_id == 0 && ::access(path.c_str(), F_OK) != 0)
    log::info("registry: makes a new one in {}, whose tenant ids begin with 1", state_dir);
  ITIF_TRY(make_private_file(path));
  ITIF_ASSIGN(Database database, Database::open(path));
  ITIF_TRY(database.run("PRAGMA journal_mode = WAL"));
  ITIF_TRY(database.run("PRAGMA synchronous = FULL"));
  ITIF_TRY(prepare(database, &mark, state_dir));
  ITIF_ASSIGN(RegistryContents contents, read_contents(database));
  ITIF_TRY(check_not_behind(contents, mark, state_dir));
  if (found && mark.identity.empty())
    log::warning("registry: {} is accepted as it is; new tenants get ids above {}", path,
                 std::max(mark.last_id, contents.last_id));
  if (contents.last_id < mark.last_id) {
    const Value last_id = static_cast<int64_t>(mark.last_id);
    ITIF_TRY(database.transaction([&]() -> Status {
      ITIF_TRY(database.run("UPDATE sequence SET last_id = ?1", {&last_id, 1}));
      return seal_contents(database);
    }));
    ITIF_ASSIGN(contents, read_contents(database));
  }
  // A full disk must not prevent a start. Changes write the mark, too.
  const RegistryMark reached{contents.identity, contents.changes, contents.last_id};
  if (const Status saved = reached == found ? Status() : write_mark(state_dir, reached); !saved)
    log::warning("registry: {}", saved.error().message);
  // From here on the database's own file has all pages (registry_files.h).
  if (const auto done = database.run("PRAGMA wal_checkpoint(TRUNCATE)"); !done)
    log::warning("registry: {}", done.error().message);
  return database;
}

// REQUIRES: the registry is locked.
Result<Database> open_database(const std::string& state_dir) {
  auto database = open_and_check(state_dir);
  return database ? std::move(database) : as_damage(std::move(database.error()));
}

}  // namespace

Result<std::unique_ptr<Registry>> Registry::open(const std::string& state_dir) {
  if (state_dir.empty())
    return fail(Code::kInvalidArgument,
                "control.state_dir is empty: name a directory for the registry");
  ITIF_TRY(make_private_directory(state_dir));
  ITIF_ASSIGN(FileLock lock, lock_registry(state_dir));
  ITIF_ASSIGN(Database database, open_database(state_dir));
  ITIF_ASSIGN(RegistryFiles files, RegistryFiles::open(path_in(state_dir)));
  std::unique_ptr<Registry> registry(new Registry(state_dir, std::move(database)));
  registry->lock_ = std::move(lock);
  registry->files_ = std::move(files);
  registry->note_files();
  return registry;
}

Result<std::unique_ptr<Registry>> Registry::open_copy(const std::string& state_dir) {
  ITIF_TRY(make_private_directory(state_dir));
  ITIF_ASSIGN(Database copy, Database::copy(path_in(state_dir)));
  if (Status prepared = prepare(copy, nullptr, state_dir); !prepared)
    return as_damage(std::move(prepared.error()));
  return std::unique_ptr<Registry>(new Registry(state_dir, std::move(copy)));
}

Status Registry::acquire() {
  ITIF_ASSIGN(FileLock lock, lock_registry(state_dir_));
  ITIF_ASSIGN(Database database, open_database(state_dir_));
  ITIF_ASSIGN(files_, RegistryFiles::open(path_in(state_dir_)));
  database_ = std::move(database);
  lock_ = std::move(lock);
  note_files();
  return {};
}

Status Registry::release() {
  ITIF_TRY(check_files());
  ITIF_ASSIGN(Database copy, Database::copy(path_in(state_dir_)));
  database_ = std::move(copy);
  files_.reset();
  lock_.reset();
  return {};
}

// Returns SQLite's count of changes by other connections, if the database can be read.
std::optional<int64_t> Registry::data_version() {
  const auto rows = database_.run("PRAGMA data_version");
  const auto* version =
      rows && rows->size() == 1 ? std::get_if<int64_t>(&rows->front().at(0)) : nullptr;
  return version == nullptr ? std::nullopt : std::optional(*version);
}

void Registry::note_files() {
  data_version_ = data_version();
  files_->note();
}

Status Registry::check_files() {
  if (!files_) return {};
  // SQLite cannot read this from a file that was emptied.
  const auto pages =
      database_.run("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
  const auto* bytes =
      pages && pages->size() == 1 ? std::get_if<int64_t>(&pages->front().at(0)) : nullptr;
  const std::optional<int64_t> version = data_version();
  const bool others_wrote = version.has_value() && version != data_version_;
  ITIF_TRY(files_->check(bytes != nullptr ? *bytes : INT64_MAX, others_wrote));
  if (others_wrote) note_files();
  return {};
}

Status Registry::change(const std::function<Status()>& body) {
  ITIF_TRY(check_files());
  const Status done = database_.transaction([&]() -> Status {
    ITIF_TRY(body());
    return seal_contents(database_);
  });
  if (files_) note_files();
  return done;
}

Status Registry::save_mark() {
  if (!files_) return {};
  ITIF_ASSIGN(const RegistryContents contents, read_contents(database_));
  return write_mark(state_dir_, {contents.identity, contents.changes, contents.last_id});
}

void Registry::try_to_save_mark() {
  // The change is durable without it. The next mark includes it.
  if (const Status saved = save_mark(); !saved)
    log::warning("registry: a loss of the last change would not be noticed: {}",
                 saved.error().message);
}

Result<std::vector<tenant::Record>> Registry::load() {
  ITIF_ASSIGN(auto rows,
              database_.run(fmt::format("SELECT {} FROM tenant ORDER BY id", tenant_columns())));
  std::vector<tenant::Record> records;
  for (Row& row : rows) {
    const KeyWiper wiper(row);
    ITIF_ASSIGN(tenant::Record record, read_tenant(row, path()));
    records.push_back(std::move(record));
  }
  ITIF_ASSIGN(const RegistryContents contents, read_contents(database_));
  if (!records.empty() && records.back().id > contents.last_id)
    return fail(Code::kCorrupt,
                fmt::format("{}: table sequence: last_id must be at least {}, the highest id of a "
                            "tenant, found {}: restore a backup, or correct the row "
                            "(docs/operations.md, \"Backup\")",
                            path(), records.back().id, contents.last_id));
  ITIF_ASSIGN(const auto versions,
              database_.run(fmt::format("SELECT {} FROM other_version ORDER BY tenant_id, number",
                                        kVersionColumns)));
  for (const Row& row : versions) {
    ITIF_ASSIGN(auto version, read_version(row, path()));
    const auto tenant = std::ranges::find(records, version.first, &tenant::Record::id);
    if (tenant == records.end())
      return fail(Code::kCorrupt,
                  fmt::format("{}: table other_version, version {} of tenant {}: tenant_id must be "
                              "the id of a tenant, found none: restore a backup, or delete the row "
                              "(docs/operations.md, \"Backup\")",
                              path(), version.second.number, version.first));
    tenant->others.push_back(std::move(version.second));
  }
  for (const tenant::Record& record : records) ITIF_TRY(check_versions(record, path()));
  return records;
}

Result<std::map<std::string, GroupSettings>> Registry::load_groups() {
  ITIF_ASSIGN(const auto rows,
              database_.run(fmt::format("SELECT {} FROM group_setting", kGroupColumns)));
  std::map<std::string, GroupSettings> groups;
  for (const Row& row : rows) {
    ITIF_ASSIGN(auto group, read_group(row, path()));
    groups.insert(std::move(group));
  }
  return groups;
}

Status Registry::put_group(const std::string& group, const GroupSettings& settings) {
  const Value values[] = {group,
                          settings.planner,
                          settings.scheduler,
                          settings.share_percent ? int64_t{*settings.share_percent} : -1,
                          settings.cpus ? format_cpus(*settings.cpus) : "-",
                          int64_t{settings.weight.value_or(0)}};
  ITIF_TRY(change([&]() -> Status {
    ITIF_TRY(
        database_.run("INSERT INTO group_setting (name, planner, scheduler, share_percent, cpus, "
                      "weight) VALUES (?1, ?2, ?3, max(?4, 0), iif(?5 = '-', '', ?5), max(?6, 1)) "
                      "ON CONFLICT (name) DO UPDATE SET "
                      "planner = iif(?2 = '', planner, ?2), "
                      "scheduler = iif(?3 = '', scheduler, ?3), "
                      "share_percent = iif(?4 = -1, share_percent, ?4), "
                      "cpus = iif(?5 = '-', cpus, ?5), "
                      "weight = iif(?6 = 0, weight, ?6)",
                      values));
    return seal_rows(database_, "group_setting", "name = ?1", {values, 1});
  }));
  try_to_save_mark();
  return {};
}

Result<uint32_t> Registry::allocate_id() {
  std::vector<Row> rows;
  ITIF_TRY(change([&]() -> Status {
    ITIF_ASSIGN(rows, database_.run("UPDATE sequence SET last_id = last_id + 1 WHERE last_id < "
                                    "4294967295 RETURNING last_id"));
    if (rows.size() == 1) return {};
    return fail(Code::kResourceExhausted, path() + ": all 4294967295 tenant ids have been used");
  }));
  ITIF_TRY(save_mark());
  return static_cast<uint32_t>(std::get<int64_t>(rows[0][0]));
}

Status Registry::insert(const tenant::Record& record) {
  std::vector<Value> values = tenant_values(record);
  const KeyWiper wiper(values);
  const Value id = id_value(record.id);
  auto done = change([&]() -> Status {
    ITIF_TRY(database_.run(fmt::format("INSERT INTO tenant ({}) VALUES ({})", tenant_columns(),
                                       parameters(values.size())),
                           values));
    // A caller may bring an id of its own.
    ITIF_TRY(database_.run("UPDATE sequence SET last_id = max(last_id, ?1)", {&id, 1}));
    ITIF_TRY(seal_rows(database_, "tenant", "id = ?1", {&id, 1}));
    return put_versions(database_, record);
  });
  if (!done && done.error().code == Code::kAlreadyExists)
    return fail(
        Code::kAlreadyExists,
        fmt::format("a tenant named '{}' (or with id {}) exists already", record.name, record.id));
  if (done) try_to_save_mark();
  return done;
}

Status Registry::update(const tenant::Record& record) {
  std::vector<Value> values = tenant_values(record);
  const KeyWiper wiper(values);
  const Value id = id_value(record.id);
  Status done = change([&]() -> Status {
    ITIF_TRY(database_.run(fmt::format("UPDATE tenant SET ({}) = ({}) WHERE id = ?1",
                                       tenant_columns(), parameters(values.size())),
                           values));
    if (database_.changes() != 1)
      return fail(Code::kNotFound, fmt::format("{} has no tenant with id {}", path(), record.id));
    ITIF_TRY(seal_rows(database_, "tenant", "id = ?1", {&id, 1}));
    return put_versions(database_, record);
  });
  if (!done && done.error().code == Code::kAlreadyExists)
    return fail(Code::kAlreadyExists,
                fmt::format("a tenant named '{}' exists already", record.name));
  if (done) try_to_save_mark();
  return done;
}

Status Registry::remove(uint32_t id) {
  const Value value = id_value(id);
  ITIF_TRY(change([&]() -> Status {
    ITIF_TRY(database_.run("DELETE FROM tenant WHERE id = ?1", {&value, 1}));
    if (database_.changes() != 1)
      return fail(Code::kNotFound, fmt::format("{} has no tenant with id {}", path(), id));
    ITIF_TRY(database_.run("DELETE FROM other_version WHERE tenant_id = ?1", {&value, 1}));
    return {};
  }));
  try_to_save_mark();
  return {};
}

}  // namespace itif::control
