#include "control/registry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/cpu_list.h"
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

Blob blob_of(const tenant::Key& key) {
  return {key.bytes.begin(), key.bytes.end()};
}

// The columns that no setting is stored in; values_of() and load() follow this order. A column for
// each of tenant::kSettingFields comes after them.
constexpr std::string_view kColumns =
    "id, name, model_dir, base_dir, group_name, state, key_epoch, key, previous_key_epoch, "
    "previous_key, created_unix_ns, updated_unix_ns, version, installed_unix_ns, canary_percent";

std::string columns() {
  std::string list(kColumns);
  for (const tenant::SettingField& field : tenant::kSettingFields)
    list += fmt::format(", {}", field.name);
  return list;
}

// The values of a row, in the order of columns().
std::vector<Value> values_of(const tenant::Record& r) {
  std::vector<Value> values = {static_cast<int64_t>(r.id),
                               r.name,
                               r.model_dir,
                               r.base_dir,
                               r.group,
                               static_cast<int64_t>(r.state),
                               static_cast<int64_t>(r.key.epoch),
                               blob_of(r.key),
                               static_cast<int64_t>(r.has_previous_key ? r.previous_key.epoch : 0),
                               r.has_previous_key ? blob_of(r.previous_key) : Blob{},
                               static_cast<int64_t>(r.created_unix_ns),
                               static_cast<int64_t>(r.updated_unix_ns),
                               static_cast<int64_t>(r.version),
                               static_cast<int64_t>(r.installed_unix_ns),
                               static_cast<int64_t>(r.canary_percent)};
  for (const tenant::SettingField& field : tenant::kSettingFields)
    values.emplace_back(static_cast<int64_t>(field.get(r)));
  return values;
}

// Overwrites the keys among values of a row when it ends.
class KeyWiper {
 public:
  explicit KeyWiper(std::span<Value> values) : values_(values) {}
  ~KeyWiper() {
    for (Value& value : values_)
      if (auto* const key = std::get_if<Blob>(&value)) wipe(*key);
  }
  KeyWiper(const KeyWiper&) = delete;
  KeyWiper& operator=(const KeyWiper&) = delete;

 private:
  const std::span<Value> values_;
};

// "?1, ?2, …" for the values of a row.
std::string parameters(size_t count) {
  std::string list = "?1";
  for (size_t i = 2; i <= count; ++i) list += fmt::format(", ?{}", i);
  return list;
}

// Reads a row's columns in order and remembers the first invalid one.
class RowReader {
 public:
  explicit RowReader(const Row& row) : row_(row) {}

  template <class T>
  T number(const char* name, uint64_t max = std::numeric_limits<T>::max()) {
    const auto* value = next<int64_t>(name);
    if (value == nullptr || *value < 0 || static_cast<uint64_t>(*value) > max) {
      note(name);
      return T{};
    }
    return static_cast<T>(*value);
  }
  std::string text(const char* name) {
    const auto* value = next<std::string>(name);
    return value ? *value : std::string();
  }
  // Returns false if the blob is empty or invalid.
  bool key(const char* name, tenant::Key& out) {
    const auto* value = next<Blob>(name);
    if (value == nullptr || value->empty()) return false;
    if (value->size() != out.bytes.size()) {
      note(name);
      return false;
    }
    std::ranges::copy(*value, out.bytes.begin());
    return true;
  }
  const char* wrong() const { return wrong_; }
  void note(const char* name) {
    if (wrong_ == nullptr) wrong_ = name;
  }

 private:
  template <class T>
  const T* next(const char* name) {
    const T* value = at_ < row_.size() ? std::get_if<T>(&row_[at_]) : nullptr;
    ++at_;
    if (value == nullptr) note(name);
    return value;
  }

  const Row& row_;
  size_t at_ = 0;
  const char* wrong_ = nullptr;
};

constexpr int64_t kMaxNs = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMaxStoredPercent = 99;

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
                            static_cast<int64_t>(version.state)};
    ITIF_TRY(
        database.run("INSERT INTO other_version (tenant_id, number, model_dir, base_dir, "
                     "installed_unix_ns, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                     values));
  }
  return {};
}

// Reads the versions that are not active. Notes in `of` what contradicts the tenant's row.
std::vector<tenant::Version> read_versions(std::span<const Row> rows, const tenant::Record& record,
                                           RowReader& of) {
  std::vector<tenant::Version> versions;
  uint32_t num_canaries = 0, num_previous = 0;
  for (const Row& row : rows) {
    RowReader reader(row);
    tenant::Version& version = versions.emplace_back();
    version.number = reader.number<uint32_t>("version");
    version.model_dir = reader.text("model_dir");
    version.base_dir = reader.text("base_dir");
    version.installed_unix_ns = reader.number<uint64_t>("installed_unix_ns", kMaxNs);
    const auto state = reader.number<uint8_t>("state", tenant::kNumVersionStates - 1);
    version.state = static_cast<tenant::VersionState>(state);
    num_canaries += version.state == tenant::VersionState::kCanary;
    num_previous += version.state == tenant::VersionState::kPrevious;
    if (reader.wrong() != nullptr || version.number == record.version ||
        version.state == tenant::VersionState::kActive)
      of.note("versions");
  }
  if (num_previous > 1 || num_canaries != (record.canary_percent > 0 ? 1u : 0u))
    of.note("versions");
  return versions;
}

std::string path_in(const std::string& state_dir) {
  return state_dir + "/registry.db";
}

Result<FileLock> lock_registry(const std::string& state_dir) {
  return FileLock::acquire(state_dir + "/registry.lock",
                           "another itifd keeps its tenants there: stop that one, or set "
                           "control.state_dir to another directory");
}

// REQUIRES: the registry is locked.
Result<Database> open_database(const std::string& state_dir) {
  const std::string path = path_in(state_dir);
  ITIF_TRY(make_private_file(path));
  ITIF_ASSIGN(Database database, Database::open(path));
  ITIF_TRY(database.run("PRAGMA journal_mode = WAL"));
  ITIF_TRY(database.run("PRAGMA synchronous = FULL"));
  ITIF_TRY(check_integrity(database));
  ITIF_TRY(migrate(database));
  return database;
}

}  // namespace

Result<std::unique_ptr<Registry>> Registry::open(const std::string& state_dir) {
  if (state_dir.empty())
    return fail(Code::kInvalidArgument,
                "control.state_dir is empty: name a directory for the registry");
  ITIF_TRY(make_private_directory(state_dir));
  ITIF_ASSIGN(FileLock lock, lock_registry(state_dir));
  ITIF_ASSIGN(Database database, open_database(state_dir));
  return std::unique_ptr<Registry>(new Registry(state_dir, std::move(lock), std::move(database)));
}

Result<std::unique_ptr<Registry>> Registry::open_copy(const std::string& state_dir) {
  ITIF_TRY(make_private_directory(state_dir));
  ITIF_ASSIGN(Database copy, Database::copy(path_in(state_dir)));
  ITIF_TRY(check_integrity(copy));
  ITIF_TRY(migrate(copy));
  return std::unique_ptr<Registry>(new Registry(state_dir, std::nullopt, std::move(copy)));
}

Status Registry::acquire() {
  ITIF_ASSIGN(FileLock lock, lock_registry(state_dir_));
  ITIF_ASSIGN(Database database, open_database(state_dir_));
  database_ = std::move(database);
  lock_ = std::move(lock);
  return {};
}

Status Registry::release() {
  ITIF_ASSIGN(Database copy, Database::copy(path_in(state_dir_)));
  database_ = std::move(copy);
  lock_.reset();
  return {};
}

Result<std::vector<tenant::Record>> Registry::load() {
  ITIF_ASSIGN(auto rows,
              database_.run(fmt::format("SELECT {} FROM tenant ORDER BY id", columns())));
  std::vector<tenant::Record> records;
  for (Row& row : rows) {
    const KeyWiper wiper(row);
    RowReader reader(row);
    tenant::Record& r = records.emplace_back();
    r.id = reader.number<uint32_t>("id");
    r.name = reader.text("name");
    r.model_dir = reader.text("model_dir");
    r.base_dir = reader.text("base_dir");
    r.group = reader.text("group_name");
    r.state = static_cast<tenant::State>(reader.number<uint8_t>("state", 1));
    r.key.epoch = reader.number<uint16_t>("key_epoch");
    if (!reader.key("key", r.key)) reader.note("key");
    const auto previous_epoch = reader.number<uint16_t>("previous_key_epoch");
    r.has_previous_key = reader.key("previous_key", r.previous_key);
    if (r.has_previous_key) r.previous_key.epoch = previous_epoch;
    r.created_unix_ns = reader.number<uint64_t>("created_unix_ns", kMaxNs);
    r.updated_unix_ns = reader.number<uint64_t>("updated_unix_ns", kMaxNs);
    r.version = reader.number<uint32_t>("version");
    r.installed_unix_ns = reader.number<uint64_t>("installed_unix_ns", kMaxNs);
    r.canary_percent = reader.number<uint32_t>("canary_percent", kMaxStoredPercent);
    const Value id = id_value(r.id);
    ITIF_ASSIGN(const auto others,
                database_.run("SELECT number, model_dir, base_dir, installed_unix_ns, state FROM "
                              "other_version WHERE tenant_id = ?1 ORDER BY number",
                              {&id, 1}));
    r.others = read_versions(others, r, reader);
    for (const tenant::SettingField& field : tenant::kSettingFields)
      field.set(r, reader.number<uint64_t>(field.name, field.storage_max));
    if (reader.wrong() != nullptr)
      return fail(
          Code::kCorrupt,
          fmt::format("{}: tenant {} ('{}') has no valid {}: correct the row with sqlite3, or "
                      "restore a backup",
                      path(), r.id, r.name, reader.wrong()));
  }
  return records;
}

Result<std::map<std::string, GroupSettings>> Registry::load_groups() {
  ITIF_ASSIGN(
      const auto rows,
      database_.run("SELECT name, planner, scheduler, share_percent, cpus FROM group_setting"));
  std::map<std::string, GroupSettings> groups;
  for (const Row& row : rows) {
    RowReader reader(row);
    const std::string name = reader.text("name");
    GroupSettings& settings = groups[name];
    settings.planner = reader.text("planner");
    settings.scheduler = reader.text("scheduler");
    if (const auto percent = reader.number<uint32_t>("share_percent", 100); percent > 0)
      settings.share_percent = percent;
    if (const std::string cpus = reader.text("cpus"); !cpus.empty()) {
      if (auto list = parse_cpus(cpus))
        settings.cpus = std::move(*list);
      else
        reader.note("cpus");
    }
    if (reader.wrong() != nullptr)
      return fail(
          Code::kCorrupt,
          fmt::format("{}: the settings of group '{}' have no valid {}: delete the row with "
                      "sqlite3, or restore a backup",
                      path(), name, reader.wrong()));
  }
  return groups;
}

Status Registry::put_group(const std::string& group, const GroupSettings& settings) {
  const Value values[] = {group, settings.planner, settings.scheduler,
                          settings.share_percent ? int64_t{*settings.share_percent} : -1,
                          settings.cpus ? format_cpus(*settings.cpus) : "-"};
  ITIF_TRY(
      database_.run("INSERT INTO group_setting (name, planner, scheduler, share_percent, cpus) "
                    "VALUES (?1, ?2, ?3, max(?4, 0), iif(?5 = '-', '', ?5)) "
                    "ON CONFLICT (name) DO UPDATE SET "
                    "planner = iif(?2 = '', planner, ?2), "
                    "scheduler = iif(?3 = '', scheduler, ?3), "
                    "share_percent = iif(?4 = -1, share_percent, ?4), "
                    "cpus = iif(?5 = '-', cpus, ?5)",
                    values));
  return {};
}

Result<uint32_t> Registry::allocate_id() {
  ITIF_ASSIGN(const auto rows,
              database_.run("UPDATE sequence SET last_id = last_id + 1 WHERE last_id < 4294967295 "
                            "RETURNING last_id"));
  if (rows.size() != 1)
    return fail(Code::kResourceExhausted, path() + ": all 4294967295 tenant ids have been used");
  return static_cast<uint32_t>(std::get<int64_t>(rows[0][0]));
}

Status Registry::insert(const tenant::Record& record) {
  std::vector<Value> values = values_of(record);
  const KeyWiper wiper(values);
  auto done = database_.transaction([&]() -> Status {
    ITIF_TRY(database_.run(
        fmt::format("INSERT INTO tenant ({}) VALUES ({})", columns(), parameters(values.size())),
        values));
    return put_versions(database_, record);
  });
  if (done) return {};
  if (done.error().code == Code::kAlreadyExists)
    return fail(
        Code::kAlreadyExists,
        fmt::format("a tenant named '{}' (or with id {}) exists already", record.name, record.id));
  return std::unexpected(done.error());
}

Status Registry::update(const tenant::Record& record) {
  std::vector<Value> values = values_of(record);
  const KeyWiper wiper(values);
  Status done = database_.transaction([&]() -> Status {
    ITIF_TRY(database_.run(fmt::format("UPDATE tenant SET ({}) = ({}) WHERE id = ?1", columns(),
                                       parameters(values.size())),
                           values));
    if (database_.changes() != 1)
      return fail(Code::kNotFound, fmt::format("{} has no tenant with id {}", path(), record.id));
    return put_versions(database_, record);
  });
  if (!done && done.error().code == Code::kAlreadyExists)
    return fail(Code::kAlreadyExists,
                fmt::format("a tenant named '{}' exists already", record.name));
  return done;
}

Status Registry::remove(uint32_t id) {
  const Value value = id_value(id);
  return database_.transaction([&]() -> Status {
    ITIF_TRY(database_.run("DELETE FROM tenant WHERE id = ?1", {&value, 1}));
    if (database_.changes() != 1)
      return fail(Code::kNotFound, fmt::format("{} has no tenant with id {}", path(), id));
    ITIF_TRY(database_.run("DELETE FROM other_version WHERE tenant_id = ?1", {&value, 1}));
    return {};
  });
}

}  // namespace itif::control
