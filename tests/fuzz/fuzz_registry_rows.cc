// The tenants' registry: a file of any bytes, or an intact one whose rows, columns, tables and
// schema version were changed by another program.
//
//   input = u8: options (Options below); then, with kRawFile, the bytes of registry.db, else
//           edits (edit() below)
//
// Each registry is refused with an error, or holds tenants that can be read, written and read
// again, and never gives an id that is used or was used before.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "control/database.h"
#include "control/registry.h"
#include "control/registry_checksum.h"
#include "input.h"

namespace {

using namespace itif;
using namespace itif::control;
namespace fs = std::filesystem;

enum Options : uint8_t {
  kRawFile = 1,
  kWithMark = 2,       // the mark of the registry before the edits
  kAcceptEdits = 4,    // as docs/operations.md says: checksum = 'edited'
  kSealEdits = 8,      // checksums that match the edits, as a forger makes them
  kWithoutTypes = 16,  // columns that take values of any type
};

constexpr uint32_t kTenants = 3;
constexpr uint32_t kLastId = 5;  // tenants 4 and 5 were removed
constexpr int kMaxEdits = 24;

struct Column {
  const char* table;
  const char* name;
};
constexpr Column kColumns[] = {
    {"tenant", "id"},
    {"tenant", "name"},
    {"tenant", "model_dir"},
    {"tenant", "base_dir"},
    {"tenant", "group_name"},
    {"tenant", "slo_ns"},
    {"tenant", "weight"},
    {"tenant", "quota_rps"},
    {"tenant", "auth"},
    {"tenant", "state"},
    {"tenant", "key_epoch"},
    {"tenant", "key"},
    {"tenant", "previous_key_epoch"},
    {"tenant", "previous_key"},
    {"tenant", "created_unix_ns"},
    {"tenant", "updated_unix_ns"},
    {"tenant", "version"},
    {"tenant", "installed_unix_ns"},
    {"tenant", "canary_percent"},
    {"tenant", "checksum"},
    {"other_version", "tenant_id"},
    {"other_version", "number"},
    {"other_version", "model_dir"},
    {"other_version", "base_dir"},
    {"other_version", "installed_unix_ns"},
    {"other_version", "state"},
    {"other_version", "checksum"},
    {"group_setting", "name"},
    {"group_setting", "planner"},
    {"group_setting", "scheduler"},
    {"group_setting", "share_percent"},
    {"group_setting", "cpus"},
    {"group_setting", "weight"},
    {"group_setting", "checksum"},
    {"sequence", "last_id"},
    {"contents", "identity"},
    {"contents", "changes"},
    {"contents", "checksum"},
    // Added later, at the end, so that the corpus keeps its meaning.
    {"tenant", "digest"},
    {"tenant", "file_stamp"},
    {"other_version", "digest"},
    {"other_version", "file_stamp"},
};
constexpr const char* kTables[] = {"tenant", "other_version", "group_setting", "sequence",
                                   "contents"};

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  CHECK(chmod(path.c_str(), 0600) == 0);
}

tenant::Record record_of(uint32_t id) {
  tenant::Record record;
  record.id = id;
  record.name = "tenant" + std::to_string(id);
  record.model_dir = "/models/" + record.name;
  record.group = "bert-768";
  record.key.epoch = 2;
  record.previous_key.epoch = 1;
  record.has_previous_key = id == 1;
  record.version = 3;
  record.others = {{1, "/models/old", 4, tenant::VersionState::kPrevious, {}},
                   {4, "/models/new", 6, tenant::VersionState::kCanary, {}}};
  record.canary_percent = 5;
  record.contents = {std::string(64, 'a'), std::string(32, '1')};
  return record;
}

// The files of an intact registry.
struct Intact {
  std::string directory, database, mark;

  Intact() {
    log::set_level(log::Level::kNone);
    const fs::path parent = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    directory = (parent / "itif-fuzz-XXXXXX").string();
    CHECK(mkdtemp(directory.data()) != nullptr);
    {
      auto registry = Registry::open(directory);
      CHECK(registry.has_value());
      for (uint32_t id = 1; id <= kLastId; ++id) {
        CHECK(*(*registry)->allocate_id() == id);
        if (id <= kTenants) CHECK((*registry)->insert(record_of(id)).has_value());
      }
      CHECK((*registry)->put_group("bert-768", {"naive", "edf", 30, {{1, 2}}, 4}).has_value());
    }
    database = bytes_of(path());
    mark = bytes_of(directory + "/registry.mark");
  }
  ~Intact() {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
  }
  std::string path() const { return directory + "/registry.db"; }
  void begin_again(std::string_view bytes, bool with_mark) const {
    for (const char* const name : {"/registry.db-wal", "/registry.db-shm", "/registry.mark"})
      unlink((directory + name).c_str());
    write_bytes(path(), bytes);
    if (with_mark) write_bytes(directory + "/registry.mark", mark);
  }
};

const Intact& intact() {
  static const Intact files;
  return files;
}

Value value_from(fuzz::Input& input) {
  switch (input.u8() % 5) {
    case 0: return static_cast<int64_t>(input.u64());
    case 1: return int64_t{input.u8()};
    case 2: {
      constexpr int64_t kValues[] = {-1,
                                     0,
                                     1,
                                     kLastId,
                                     kLastId + 1,
                                     UINT16_MAX,
                                     UINT16_MAX + 1,
                                     UINT32_MAX - 1,
                                     UINT32_MAX,
                                     int64_t{UINT32_MAX} + 1,
                                     INT64_MAX - 1,
                                     INT64_MAX,
                                     INT64_MIN};
      return kValues[input.u8() % std::size(kValues)];
    }
    case 3: {
      const auto bytes = input.bytes(input.u8());
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    default: {
      const auto bytes = input.bytes(input.u8() % 40);
      return Blob(bytes.begin(), bytes.end());
    }
  }
}

// The rows that an edit concerns: one, or all.
std::string rows_from(fuzz::Input& input) {
  const uint8_t row = input.u8() % 8;
  return row == 0 ? "true" : "rowid = " + std::to_string(row);
}

// SQLite may refuse an edit.
void edit(Database& database, fuzz::Input& input) {
  const uint8_t what = input.u8() % 12;
  const Column& column = kColumns[input.u8() % std::size(kColumns)];
  const std::string table = column.table, name = column.name;
  switch (what) {
    default: {  // a value
      const std::string rows = rows_from(input);
      const Value value = value_from(input);
      (void)database.run("UPDATE " + table + " SET " + name + " = ?1 WHERE " + rows, {&value, 1});
      break;
    }
    case 5: {  // one more tenant
      const Value values[] = {value_from(input), std::string("more") + std::to_string(input.u8())};
      (void)database.run(
          "INSERT INTO tenant (id, name, model_dir, group_name, slo_ns, weight, quota_rps, auth, "
          "state, key_epoch, key, previous_key_epoch, previous_key, created_unix_ns, "
          "updated_unix_ns, version, installed_unix_ns, canary_percent, base_dir, checksum) SELECT "
          "?1, ?2, model_dir, group_name, slo_ns, weight, quota_rps, auth, state, key_epoch, key, "
          "previous_key_epoch, previous_key, created_unix_ns, updated_unix_ns, version, "
          "installed_unix_ns, 0, base_dir, checksum FROM tenant LIMIT 1",
          values);
      break;
    }
    case 6: {  // one more version
      const Value values[] = {value_from(input), value_from(input)};
      (void)database.run(
          "INSERT INTO other_version (tenant_id, number, model_dir, installed_unix_ns, state, "
          "base_dir, checksum) SELECT ?1, ?2, model_dir, installed_unix_ns, 3, base_dir, checksum "
          "FROM other_version LIMIT 1",
          values);
      break;
    }
    case 7: (void)database.run("DELETE FROM " + table + " WHERE " + rows_from(input)); break;
    case 8: (void)database.run("ALTER TABLE " + table + " DROP COLUMN " + name); break;
    case 9: (void)database.run("DROP TABLE " + table); break;
    case 10:
      (void)database.run("PRAGMA user_version = " + std::to_string(input.u8()));
      if (input.u8() % 8 == 1) (void)database.run("PRAGMA application_id = 7");
      break;
    case 11: {  // other columns, or a row of values that a table must not have
      constexpr const char* kStatements[] = {
          "ALTER TABLE tenant ADD COLUMN note TEXT",
          "INSERT INTO sequence VALUES (9)",
          "INSERT INTO contents SELECT * FROM contents",
          "CREATE TRIGGER keep AFTER UPDATE ON tenant BEGIN DELETE FROM other_version; END",
          "CREATE VIEW names AS SELECT name FROM tenant",
          "CREATE INDEX by_group ON tenant (group_name)",
          "UPDATE tenant SET slo_ns = 1.5",
          "UPDATE sequence SET last_id = 1e300",
          "PRAGMA encoding = 'UTF-16'",
          "PRAGMA journal_mode = DELETE",
          "VACUUM",
          "ANALYZE",
      };
      (void)database.run(kStatements[input.u8() % std::size(kStatements)]);
      break;
    }
  }
}

void drop_types(Database& database) {
  (void)database.run("PRAGMA writable_schema = ON");
  (void)database.run("UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')')");
  (void)database.run("PRAGMA writable_schema = RESET");
}

void apply_edits(const std::string& path, uint8_t options, fuzz::Input& input) {
  auto opened = Database::open(path);
  CHECK(opened.has_value());
  Database& database = *opened;
  (void)database.run("PRAGMA synchronous = OFF");
  if (options & kWithoutTypes) drop_types(database);
  for (int i = 0; i < kMaxEdits && !input.empty(); ++i) edit(database, input);
  if (options & kSealEdits) (void)seal_all(database);
  if (!(options & kAcceptEdits)) return;
  for (const char* const table : kTables)
    (void)database.run(std::string("UPDATE ") + table + " SET checksum = 'edited'");
}

template <class Answer>
bool is_refused(const Answer& answer) {
  if (answer) return false;
  CHECK(!answer.error().message.empty() && answer.error().code != Code::kInternal);
  CHECK(answer.error().code != Code::kAlreadyExists);
  return true;
}

bool equal(const tenant::Record& a, const tenant::Record& b) {
  return a.id == b.id && a.name == b.name && a.model_dir == b.model_dir &&
         a.base_dir == b.base_dir && a.group == b.group && a.state == b.state &&
         a.key.epoch == b.key.epoch && a.key.bytes == b.key.bytes &&
         a.has_previous_key == b.has_previous_key && a.version == b.version &&
         a.contents == b.contents && a.others == b.others && a.canary_percent == b.canary_percent &&
         std::ranges::all_of(tenant::kSettingFields, [&](const tenant::SettingField& field) {
           return field.get(a) == field.get(b);
         });
}

// Reads everything. Returns false if it is refused.
bool read(Registry& registry, std::vector<tenant::Record>& records) {
  auto loaded = registry.load();
  if (is_refused(loaded) || is_refused(registry.load_groups())) return false;
  for (size_t i = 1; i < loaded->size(); ++i) CHECK((*loaded)[i - 1].id < (*loaded)[i].id);
  records = std::move(*loaded);
  return true;
}

void use(bool with_mark) {
  const std::string& directory = intact().directory;
  {
    const auto copy = Registry::open_copy(directory);
    std::vector<tenant::Record> ignored;
    if (!is_refused(copy)) (void)read(**copy, ignored);
  }
  std::vector<tenant::Record> records;
  uint32_t last = with_mark ? kLastId : 0;
  {
    const auto registry = Registry::open(directory);
    if (is_refused(registry) || !read(**registry, records)) return;
    for (const tenant::Record& record : records) last = std::max(last, record.id);
    for (const tenant::Record& record : records)
      if (is_refused((*registry)->update(record))) return;
    for (int i = 0; i < 2; ++i) {
      const auto id = (*registry)->allocate_id();
      if (is_refused(id)) return;
      CHECK(*id > last);
      last = *id;
    }
    tenant::Record added = record_of(last);
    added.name = "added-by-the-target";
    const Status inserted = (*registry)->insert(added);
    if (!inserted && inserted.error().code == Code::kAlreadyExists) return;  // the name is taken
    if (is_refused(inserted)) return;
    CHECK((*registry)->remove(last).has_value());
  }
  const auto again = Registry::open(directory);
  CHECK(again.has_value());
  std::vector<tenant::Record> same;
  CHECK(read(**again, same) && same.size() == records.size());
  for (size_t i = 0; i < same.size(); ++i) CHECK(equal(same[i], records[i]));
  const auto id = (*again)->allocate_id();
  if (!is_refused(id)) CHECK(*id > last);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  const uint8_t options = input.u8();
  const bool with_mark = (options & kWithMark) != 0;
  if (options & kRawFile) {
    const auto bytes = input.bytes(size);
    intact().begin_again({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, with_mark);
  } else {
    intact().begin_again(intact().database, with_mark);
    apply_edits(intact().path(), options, input);
  }
  use(with_mark);
  return 0;
}
