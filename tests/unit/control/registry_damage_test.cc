// A registry whose rows, tables or bytes were changed: noticed and named, or without effect.
#include "control/registry_checksum.h"
#include "registry_safety_fixture.h"

namespace itif::control {
namespace {

TEST_F(RegistrySafety, AChangedRowIsNoticedAndCanBeAccepted) {
  const struct {
    const char* change;
    const char* says;
    const char* accepts;
  } cases[] = {
      {"UPDATE tenant SET weight = 30 WHERE id = 2", "table tenant with id = 2",
       "UPDATE tenant SET checksum = 'edited' WHERE (id) = (2)"},
      {"UPDATE tenant SET key = randomblob(16) WHERE id = 1", "table tenant with id = 1",
       "UPDATE tenant SET checksum = 'edited' WHERE (id) = (1)"},
      {"UPDATE other_version SET model_dir = '/x' WHERE tenant_id = 1 AND number = 5",
       "table other_version with tenant_id, number = 1, 5",
       "UPDATE other_version SET checksum = 'edited' WHERE (tenant_id, number) = (1, 5)"},
      {"UPDATE group_setting SET share_percent = 31", "table group_setting with name = 'bert-768'",
       "UPDATE group_setting SET checksum = 'edited' WHERE (name) = ('bert-768')"},
      {"DELETE FROM tenant WHERE id = 1", "the set of all rows",
       "DELETE FROM other_version WHERE tenant_id = 1; "},
      {"UPDATE sequence SET last_id = 70", "the set of all rows",
       "UPDATE contents SET checksum = 'edited'"},
      {"UPDATE contents SET changes = 700", "the set of all rows",
       "UPDATE contents SET checksum = 'edited'"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.change);
    fs::remove_all(state_);
    fill(3);
    sql(one.change);
    expect_refused(one.says);
    sql(one.accepts);
    sql("UPDATE contents SET checksum = 'edited'");
    auto registry = open();
    ASSERT_TRUE(registry->load()) << registry->load().error().message;
    registry.reset();
    open();  // its checksums are made again
  }
}

TEST_F(RegistrySafety, EveryColumnIsChecked) {
  const struct {
    const char* change;
    const char* row;
    const char* column;
  } cases[] = {
      {"UPDATE tenant SET id = 0 WHERE id = 1", "id 0", "id must be"},
      {"UPDATE tenant SET name = 'a b' WHERE id = 1", "id 1", "name must be"},
      {"UPDATE tenant SET name = '' WHERE id = 1", "id 1", "name must be"},
      {"UPDATE tenant SET model_dir = 'models/x' WHERE id = 1", "id 1", "model_dir must be"},
      {"UPDATE tenant SET base_dir = 'x' WHERE id = 1", "id 1", "base_dir must be"},
      {"UPDATE tenant SET group_name = 'g g' WHERE id = 1", "id 1", "group_name must be"},
      {"UPDATE tenant SET state = 2 WHERE id = 1", "id 1", "state must be"},
      {"UPDATE tenant SET key_epoch = 65536 WHERE id = 1", "id 1", "key_epoch must be"},
      {"UPDATE tenant SET key = x'01' WHERE id = 1", "id 1", "key must be"},
      {"UPDATE tenant SET key = x'' WHERE id = 1", "id 1", "key must be"},
      {"UPDATE tenant SET previous_key = x'01' WHERE id = 1", "id 1", "previous_key must be"},
      {"UPDATE tenant SET previous_key = x'' WHERE id = 1", "id 1", "previous_key_epoch must be"},
      {"UPDATE tenant SET previous_key_epoch = 7 WHERE id = 1", "id 1",
       "previous_key_epoch must be"},
      {"UPDATE tenant SET created_unix_ns = -1 WHERE id = 1", "id 1", "created_unix_ns must be"},
      {"UPDATE tenant SET version = 0 WHERE id = 1", "id 1", "version must be"},
      {"UPDATE tenant SET canary_percent = 100 WHERE id = 1", "id 1", "canary_percent must be"},
      {"UPDATE tenant SET weight = 0 WHERE id = 1", "id 1", "weight must be"},
      {"UPDATE tenant SET auth = 4 WHERE id = 1", "id 1", "auth must be"},
      {"UPDATE tenant SET slo_ns = 9000000000000000 WHERE id = 1", "id 1", "slo_ns must be"},
      {"UPDATE tenant SET id = 70, checksum = 'edited' WHERE id = 2", "table sequence",
       "last_id must be"},
      {"UPDATE other_version SET number = 0 WHERE tenant_id = 1 AND number = 5", "of tenant 1",
       "number must be"},
      {"UPDATE other_version SET state = 0 WHERE tenant_id = 1 AND number = 5",
       "version 5 of tenant 1", "state must be"},
      {"UPDATE other_version SET model_dir = 'x' WHERE tenant_id = 1 AND number = 5",
       "version 5 of tenant 1", "model_dir must be"},
      {"UPDATE other_version SET tenant_id = 44 WHERE tenant_id = 1 AND number = 5",
       "version 5 of tenant 44", "tenant_id must be"},
      {"UPDATE other_version SET state = 1 WHERE tenant_id = 1", "id 1", "state must be"},
      {"UPDATE other_version SET number = 7 WHERE tenant_id = 1 AND number = 5", "id 1",
       "number must"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.change);
    fs::remove_all(state_);
    fill(3);
    sql(one.change);
    for (const char* table : {"tenant", "other_version"})
      sql(std::string("UPDATE ") + table + " SET checksum = 'edited'");
    const auto records = open()->load();
    ASSERT_FALSE(records);
    EXPECT_EQ(records.error().code, Code::kCorrupt);
    for (const char* part : {"table ", one.row, one.column})
      EXPECT_NE(records.error().message.find(part), std::string::npos) << records.error().message;
  }
  const struct {
    const char* change;
    const char* column;
  } groups[] = {{"name = 'a b'", "name must"},
                {"planner = 'a b'", "planner must"},
                {"scheduler = char(1)", "scheduler must"},
                {"share_percent = 101", "share_percent must"},
                {"cpus = 'all'", "cpus must"},
                {"weight = 0", "weight must be an integer from 1 to 1000"},
                {"weight = 1001", "weight must"}};
  for (const auto& one : groups) {
    fs::remove_all(state_);
    fill(1);
    sql(std::string("UPDATE group_setting SET checksum = 'edited', ") + one.change);
    const auto loaded = open()->load_groups();
    ASSERT_FALSE(loaded) << one.change;
    EXPECT_NE(loaded.error().message.find(one.column), std::string::npos) << loaded.error().message;
  }
}

TEST_F(RegistrySafety, UnknownPartsOfTheSchemaAreRefused) {
  const struct {
    const char* change;
    const char* says;
  } cases[] = {
      {"ALTER TABLE tenant ADD COLUMN note TEXT", "tenant.note"},
      {"CREATE TABLE notes (text TEXT)", "notes"},
      {"CREATE VIEW names AS SELECT name FROM tenant", "the view names"},
      {"CREATE INDEX by_group ON tenant (group_name)", "the index by_group"},
      {"CREATE TRIGGER keep AFTER DELETE ON tenant BEGIN SELECT 1; END", "the trigger keep"},
      {"ALTER TABLE tenant DROP COLUMN weight", "lacks"},
      {"DROP TABLE group_setting", "lacks"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.change);
    fs::remove_all(state_);
    fill(1);
    sql(one.change);
    expect_refused(one.says);
  }
  fs::remove_all(state_);
  fill(1);
  sql("ANALYZE");  // tables of SQLite itself
  open();
}

// SQLite counts no further than to the largest integer: each change failed, "exists already".
TEST_F(RegistrySafety, ANumberOfChangesAtItsEndIsRefused) {
  for (const char* const changes : {"9223372036854775807", "9223372036854775806"}) {
    fs::remove_all(state_);
    fill(1);
    sql(std::string("UPDATE contents SET checksum = 'edited', changes = ") + changes);
    expect_refused("changes from 0 to");
  }
}

// itifd ended with an exception when it wrote the mark. A mark with an empty identity allows any
// registry.
TEST_F(RegistrySafety, AnIdentityThatIsNoneIsRefused) {
  for (const char* const identity : {"CAST(x'ff41' AS TEXT)", "''", "'0123'", "identity || '0'"}) {
    fs::remove_all(state_);
    fill(1);
    fs::remove(state_ + "/registry.mark");
    sql(std::string("UPDATE contents SET checksum = 'edited', identity = ") + identity);
    expect_refused("identity of 32 hexadecimal digits");
  }
}

// The upgrade was committed before the check that refused the file. An older itifd could then no
// longer open it either.
TEST_F(RegistrySafety, ARefusedFileIsNotUpgraded) {
  fill(1);
  sql("ALTER TABLE group_setting DROP COLUMN weight");
  drop_placements([&](const std::string& text) { sql(text); });
  sql("PRAGMA user_version = 8");
  {
    Database database = *Database::open(db_);
    ASSERT_TRUE(seal_all(database));
  }
  sql("CREATE VIEW names AS SELECT name FROM tenant");
  expect_refused("the view names");
  Database database = *Database::open(db_);
  EXPECT_EQ(std::get<int64_t>(database.run("PRAGMA user_version")->at(0).at(0)), 8);
}

// Flips bits in a copy of the files. Each flip must be noticed, or leave every record as it was.
class FlippedRegistry : public RegistrySafety {
 protected:
  struct Contents {
    std::vector<tenant::Record> records;
    std::map<std::string, GroupSettings> groups;
  };
  void save_expected(Registry& registry) {
    expected_.records = *registry.load();
    expected_.groups = *registry.load_groups();
  }
  void keep_files() {
    for (const char* name : {"registry.db", "registry.db-wal", "registry.mark"})
      if (fs::exists(state_ + "/" + name)) files_[name] = bytes_of(state_ + "/" + name);
  }
  // Returns true if the flip was noticed.
  bool flip(const std::string& name, size_t at, int bit) {
    fs::remove_all(state_);
    fs::create_directory(state_);
    ::chmod(state_.c_str(), 0700);
    for (const auto& [file, bytes] : files_) write_bytes(state_ + "/" + file, bytes);
    std::string bad = files_.at(name);
    bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
    write_bytes(state_ + "/" + name, bad);
    SCOPED_TRACE(name + " byte " + std::to_string(at) + " bit " + std::to_string(bit));
    auto registry = Registry::open(state_);
    const auto records = registry ? (*registry)->load() : std::unexpected(registry.error());
    const auto groups = registry ? (*registry)->load_groups() : std::unexpected(registry.error());
    if (!records || !groups) {
      const Error& error = records ? groups.error() : records.error();
      EXPECT_NE(error.message.find("registry."), std::string::npos) << error.message;
      EXPECT_NE(error.code, Code::kInternal) << error.message;
      return true;
    }
    EXPECT_EQ(records->size(), expected_.records.size());
    for (size_t i = 0; i < std::min(records->size(), expected_.records.size()); ++i)
      expect_equal(records->at(i), expected_.records[i]);
    EXPECT_EQ(*groups, expected_.groups);
    const auto id = (*registry)->allocate_id();
    if (id) {
      EXPECT_GT(*id, 3u);
    }
    return false;
  }

  Contents expected_;
  std::map<std::string, std::string> files_;
};

TEST_F(FlippedRegistry, IsNoticedOrHarmless) {
  fill(3);
  save_expected(*open());
  keep_files();
  ASSERT_FALSE(files_.contains("registry.db-wal"));
  const std::string& bytes = files_.at("registry.db");
  size_t num_noticed = 0, num_flips = 0, num_in_rows = 0;
  for (size_t at = 0; at < bytes.size(); at += at < 100 ? 1 : bytes[at] == 0 ? 61 : 3) {
    const bool noticed = flip("registry.db", at, static_cast<int>(at % 8));
    num_noticed += noticed;
    ++num_flips;
    num_in_rows += bytes[at] != 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(num_flips, 700u);
  EXPECT_GT(num_noticed * 2, num_in_rows) << num_noticed << " of " << num_flips;
}

// A damaged frame of the write-ahead log ends the log: the changes after it are lost.
TEST_F(FlippedRegistry, LogIsNoticedOrHarmless) {
  fill(3);
  {
    auto registry = open();
    ASSERT_TRUE(registry->put_group("vit", {"itif", "", 20}));
    ASSERT_TRUE(registry->allocate_id());
    save_expected(*registry);
    keep_files();
  }
  const std::string& bytes = files_.at("registry.db-wal");
  ASSERT_GT(bytes.size(), 4096u);
  size_t num_noticed = 0, num_flips = 0;
  for (size_t at = 0; at < bytes.size(); at += at < 100 ? 1 : 61) {
    num_noticed += flip("registry.db-wal", at, static_cast<int>(at % 8));
    ++num_flips;
    if (HasFailure()) return;
  }
  EXPECT_GT(num_noticed * 2, num_flips) << "SQLite itself would have lost the last changes";
}

}  // namespace
}  // namespace itif::control
