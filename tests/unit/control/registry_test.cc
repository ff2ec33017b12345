#include "control/registry.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "control/database.h"
#include "registry_records.h"
#include "temp_dir.h"
#include "tenant/version_changes.h"

namespace itif::control {
namespace {

class RegistryTest : public ::testing::Test {
 protected:
  std::unique_ptr<Registry> open() {
    auto registry = Registry::open(state_);
    EXPECT_TRUE(registry) << registry.error().message;
    return registry ? std::move(*registry) : nullptr;
  }
  Error open_error() {
    auto registry = Registry::open(state_);
    EXPECT_FALSE(registry);
    return registry ? Error{} : registry.error();
  }
  void sql(const std::string& statement) {
    auto database = Database::open(state_ + "/registry.db");
    ASSERT_TRUE(database) << database.error().message;
    auto done = database->run(statement);
    ASSERT_TRUE(done) << done.error().message;
  }
  // Makes the schema that of version 7.
  void drop_checksums() {
    std::filesystem::remove(state_ + "/registry.mark");
    sql("DROP TABLE contents");
    for (const char* table : {"tenant", "other_version", "group_setting"})
      sql(std::string("ALTER TABLE ") + table + " DROP COLUMN checksum");
  }
  // Makes the schema one without versions.
  void drop_versions() {
    drop_placements([&](const std::string& text) { sql(text); }, {"tenant"});
    sql("DROP TABLE other_version");
    for (const char* column : {"base_dir", "version", "installed_unix_ns", "canary_percent"})
      sql(std::string("ALTER TABLE tenant DROP COLUMN ") + column);
  }
  unsigned mode_of(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }

  TempDir dir_;
  std::string state_ = dir_ / "state";
};

TEST_F(RegistryTest, KeepsEveryFieldAcrossReopening) {
  const tenant::Record written = record_of(5, "alpha");
  ASSERT_TRUE(open()->insert(written));
  const auto records = open()->load();
  ASSERT_TRUE(records) << records.error().message;
  ASSERT_EQ(records->size(), 1u);
  expect_equal(records->at(0), written);
}

TEST_F(RegistryTest, UpdateAndRemove) {
  auto registry = open();
  ASSERT_TRUE(registry->insert(record_of(1, "a")));
  ASSERT_TRUE(registry->insert(record_of(2, "b")));
  tenant::Record changed = record_of(1, "renamed");
  changed.has_previous_key = false;
  changed.previous_key = {};
  changed.weight = 9;
  ASSERT_TRUE(tenant::promote_canary(changed));
  ASSERT_TRUE(registry->update(changed));
  ASSERT_TRUE(registry->remove(2));
  const auto records = registry->load();
  ASSERT_EQ(records->size(), 1u);
  expect_equal(records->at(0), changed);
  EXPECT_EQ(registry->remove(2).error().code, Code::kNotFound);
  ASSERT_TRUE(registry->remove(1));
  tenant::Record again = record_of(1, "again");  // the removed one's versions are gone, too
  again.others.clear();
  again.canary_percent = 0;
  ASSERT_TRUE(registry->insert(again));
  expect_equal(registry->load()->at(0), again);
  EXPECT_EQ(registry->update(record_of(2, "b")).error().code, Code::kNotFound);
}

TEST_F(RegistryTest, NamesAndIdsAreUnique) {
  auto registry = open();
  ASSERT_TRUE(registry->insert(record_of(1, "a")));
  ASSERT_TRUE(registry->insert(record_of(2, "b")));
  EXPECT_EQ(registry->insert(record_of(3, "a")).error().code, Code::kAlreadyExists);
  EXPECT_EQ(registry->insert(record_of(1, "c")).error().code, Code::kAlreadyExists);
  const Status renamed = registry->update(record_of(2, "a"));
  EXPECT_EQ(renamed.error().code, Code::kAlreadyExists);
  EXPECT_NE(renamed.error().message.find("'a'"), std::string::npos);
}

TEST_F(RegistryTest, IdsAreNeverReused) {
  uint32_t last = 0;
  {
    auto registry = open();
    for (int i = 0; i < 3; ++i) {
      const auto id = registry->allocate_id();
      ASSERT_TRUE(id);
      EXPECT_EQ(*id, last + 1);
      last = *id;
    }
    ASSERT_TRUE(registry->insert(record_of(last, "a")));
    ASSERT_TRUE(registry->remove(last));
  }
  EXPECT_EQ(*open()->allocate_id(), last + 1);
}

TEST_F(RegistryTest, RunsOutOfIdsWithAnError) {
  open();
  sql("UPDATE sequence SET last_id = 4294967294");
  sql("UPDATE contents SET checksum = 'edited'");
  auto registry = open();
  EXPECT_EQ(*registry->allocate_id(), 4294967295u);
  EXPECT_EQ(registry->allocate_id().error().code, Code::kResourceExhausted);
}

TEST_F(RegistryTest, IsReadableByItsOwnerOnly) {
  auto registry = open();
  ASSERT_TRUE(registry->insert(record_of(1, "a")));
  EXPECT_EQ(mode_of(state_), 0700u);
  for (const char* name :
       {"/registry.db", "/registry.db-wal", "/registry.db-shm", "/registry.lock"})
    EXPECT_EQ(mode_of(state_ + name), 0600u) << name;
}

TEST_F(RegistryTest, MakesParentDirectories) {
  state_ = dir_ / "a/b/c";
  EXPECT_TRUE(open());
  EXPECT_EQ(mode_of(dir_ / "a"), 0700u);
}

TEST_F(RegistryTest, RefusesADirectoryThatOthersCanEnter) {
  ::mkdir(state_.c_str(), 0755);
  ::chmod(state_.c_str(), 0755);
  const Error error = open_error();
  EXPECT_EQ(error.code, Code::kPermission);
  EXPECT_NE(error.message.find("chmod 700 " + state_), std::string::npos) << error.message;
}

TEST_F(RegistryTest, RefusesAFileThatOthersCanRead) {
  open();
  ::chmod((state_ + "/registry.db").c_str(), 0644);
  const Error error = open_error();
  EXPECT_EQ(error.code, Code::kPermission);
  EXPECT_NE(error.message.find("chmod 600"), std::string::npos) << error.message;
}

TEST_F(RegistryTest, RefusesAFileInPlaceOfTheDirectory) {
  std::ofstream(state_) << "x";
  EXPECT_EQ(open_error().code, Code::kInvalidArgument);
  state_ = "";
  EXPECT_EQ(open_error().code, Code::kInvalidArgument);
}

TEST_F(RegistryTest, RefusesASecondProcess) {
  auto first = open();
  const Error error = open_error();
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_NE(error.message.find("another itifd"), std::string::npos) << error.message;
}

TEST_F(RegistryTest, ErrorNamesAnotherProgramThatLocksTheFile) {
  auto registry = open();
  auto other = Database::open(state_ + "/registry.db");
  ASSERT_TRUE(other->run("BEGIN IMMEDIATE"));
  const Status busy = registry->insert(record_of(1, "a"));
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Code::kUnavailable);
  EXPECT_NE(busy.error().message.find("another program"), std::string::npos);
  ASSERT_TRUE(other->run("ROLLBACK"));
  EXPECT_TRUE(registry->insert(record_of(1, "a")));
}

TEST_F(RegistryTest, RefusesAFileThatIsNoDatabase) {
  ::mkdir(state_.c_str(), 0700);
  std::ofstream(state_ + "/registry.db") << std::string(4096, 'x');
  ::chmod((state_ + "/registry.db").c_str(), 0600);
  const Error error = open_error();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_NE(error.message.find("backup"), std::string::npos) << error.message;
}

TEST_F(RegistryTest, RefusesADamagedDatabase) {
  {
    auto registry = open();
    for (uint32_t id = 1; id <= 200; ++id)
      ASSERT_TRUE(registry->insert(record_of(id, "tenant" + std::to_string(id))));
  }
  const int fd = ::open((state_ + "/registry.db").c_str(), O_RDWR);
  const off_t size = ::lseek(fd, 0, SEEK_END);
  ASSERT_GT(size, 3 * 4096);
  const std::string junk(4096, '\x5a');
  ASSERT_EQ(::pwrite(fd, junk.data(), junk.size(), size - 4096), 4096);
  ::close(fd);
  EXPECT_EQ(open_error().code, Code::kCorrupt);
}

TEST_F(RegistryTest, RefusesAnotherProgramsDatabase) {
  ::mkdir(state_.c_str(), 0700);
  sql("CREATE TABLE bookmarks (url TEXT)");
  ::chmod((state_ + "/registry.db").c_str(), 0600);
  const Error error = open_error();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_NE(error.message.find("another program's"), std::string::npos) << error.message;
}

TEST_F(RegistryTest, RefusesANewerSchema) {
  open();
  sql("PRAGMA user_version = 1000");
  const Error error = open_error();
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_NE(error.message.find("1000"), std::string::npos);
}

TEST_F(RegistryTest, KeepsTheGroupsSettings) {
  {
    auto registry = open();
    EXPECT_TRUE(registry->load_groups()->empty());
    ASSERT_TRUE(registry->put_group("bert-768", {"naive", ""}));
    ASSERT_TRUE(registry->put_group("bert-384", {"turbo", "edf"}));
    ASSERT_TRUE(registry->put_group("bert-768", {"", "das:eta=0.4,fair"}));
    ASSERT_TRUE(registry->put_group("vit", {"", "sjf"}));
    ASSERT_TRUE(registry->put_group("bert-768", {"itif", ""}));
    ASSERT_TRUE(registry->put_group("vit", {"", "", 40}));
    ASSERT_TRUE(registry->put_group("vit", {"itif", "", std::nullopt}));  // keeps it
    ASSERT_TRUE(registry->put_group("vit", {.weight = 3}));
    ASSERT_TRUE(registry->put_group("vit", {"itif", ""}));  // keeps it
    ASSERT_TRUE(registry->put_group("gpt", {"naive", "", std::nullopt, std::nullopt, 1000}));
    ASSERT_TRUE(registry->put_group("gpt", {.weight = 1}));
    ASSERT_TRUE(registry->put_group("deberta", {"", "", 30}));
    ASSERT_TRUE(registry->put_group("deberta", {"", "", 0}));  // clears it
    ASSERT_TRUE(registry->put_group("deberta", {"slotted:row_tokens=400,slot_tokens=50", ""}));
  }
  const std::map<std::string, GroupSettings> expected = {
      {"bert-384", {"turbo", "edf"}},
      {"bert-768", {"itif", "das:eta=0.4,fair"}},
      {"deberta", {"slotted:row_tokens=400,slot_tokens=50", ""}},
      {"gpt", {"naive", ""}},
      {"vit", {"itif", "sjf", 40, std::nullopt, 3}}};
  EXPECT_EQ(*open()->load_groups(), expected);
}

// The schema of version 10 did not say what the files of versions held.
TEST_F(RegistryTest, UpgradesVersionsWithoutDigests) {
  ASSERT_TRUE(open()->insert(record_of(1, "alpha")));
  drop_digests([&](const std::string& text) { sql(text); });
  sql("UPDATE tenant SET checksum = 'edited'");  // the checksum of that schema's columns
  sql("UPDATE other_version SET checksum = 'edited'");
  sql("PRAGMA user_version = 10");
  const auto records = open()->load();
  ASSERT_EQ(records->size(), 1u);
  expect_equal(records->front(), without_digests(record_of(1, "alpha")));
}

// The schema of version 9 did not say where versions were placed.
TEST_F(RegistryTest, UpgradesTenantsWithoutPlacements) {
  ASSERT_TRUE(open()->insert(record_of(1, "alpha")));
  drop_placements([&](const std::string& text) { sql(text); });
  sql("UPDATE tenant SET checksum = 'edited'");  // the checksum of that schema's columns
  sql("UPDATE other_version SET checksum = 'edited'");
  sql("PRAGMA user_version = 9");
  tenant::Record expected = without_digests(record_of(1, "alpha"));
  expected.placement = expected.others[1].placement = {};
  const auto records = open()->load();
  ASSERT_EQ(records->size(), 1u);
  expect_equal(records->front(), expected);
}

// The schema of version 8 had no weights of groups.
TEST_F(RegistryTest, UpgradesGroupsWithoutWeights) {
  ASSERT_TRUE(open()->put_group("bert-768", {"naive", "edf", 30}));
  drop_placements([&](const std::string& text) { sql(text); });
  sql("ALTER TABLE group_setting DROP COLUMN weight");
  sql("UPDATE group_setting SET checksum = 'edited'");  // the checksum of that schema's columns
  sql("PRAGMA user_version = 8");
  {
    auto registry = open();
    EXPECT_EQ(registry->load_groups()->at("bert-768"), (GroupSettings{"naive", "edf", 30}));
    ASSERT_TRUE(registry->put_group("bert-768", {.weight = 5}));
  }
  EXPECT_EQ(open()->load_groups()->at("bert-768"),
            (GroupSettings{"naive", "edf", 30, std::nullopt, 5}));
}

// The schema of version 5 had no adapters.
TEST_F(RegistryTest, UpgradesTenantsWithoutBase) {
  ASSERT_TRUE(open()->insert(record_of(1, "alpha")));
  drop_checksums();
  drop_placements([&](const std::string& text) { sql(text); });
  sql("ALTER TABLE tenant DROP COLUMN base_dir");
  sql("ALTER TABLE group_setting DROP COLUMN weight");
  sql("ALTER TABLE group_setting DROP COLUMN cpus");
  sql("ALTER TABLE other_version DROP COLUMN base_dir");
  sql("PRAGMA user_version = 5");
  tenant::Record expected = without_digests(record_of(1, "alpha"));
  expected.base_dir.clear();
  expected.placement = expected.others[1].placement = {};
  const auto records = open()->load();
  ASSERT_EQ(records->size(), 1u);
  expect_equal(records->front(), expected);
}

// The schema of version 2 had planners only.
TEST_F(RegistryTest, UpgradesGroupsWithoutSchedulers) {
  ASSERT_TRUE(open()->put_group("bert-768", {"naive", "edf"}));
  drop_checksums();
  drop_versions();
  sql("ALTER TABLE group_setting DROP COLUMN weight");
  sql("ALTER TABLE group_setting DROP COLUMN cpus");
  sql("ALTER TABLE group_setting DROP COLUMN share_percent");
  sql("ALTER TABLE group_setting DROP COLUMN scheduler");
  sql("PRAGMA user_version = 2");
  const std::map<std::string, GroupSettings> expected = {{"bert-768", {"naive", ""}}};
  EXPECT_EQ(*open()->load_groups(), expected);
}

// The schema of version 1 had tenants only.
TEST_F(RegistryTest, UpgradesAnOldSchema) {
  ASSERT_TRUE(open()->insert(record_of(1, "alpha")));
  drop_checksums();
  drop_versions();
  sql("DROP TABLE group_setting");
  sql("PRAGMA user_version = 1");
  auto registry = open();
  ASSERT_TRUE(registry->put_group("g", {"packed", "das"}));
  const auto records = registry->load();
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ(records->at(0).version, 1u);
  EXPECT_EQ(records->at(0).model_dir, "/models/alpha");
  EXPECT_TRUE(records->at(0).others.empty());
}

TEST_F(RegistryTest, NamesTheInvalidRow) {
  for (const char* change :
       {"key = x'0102'", "auth = 9", "state = 2", "slo_ns = -1", "id = -4", "weight = 4294967296",
        "previous_key = x'01'", "version = -1", "canary_percent = 100", "canary_percent = 0",
        "version = 5", "digest = 'aa'", "file_stamp = upper(hex(randomblob(16)))"}) {
    state_ = dir_ / ("state" + std::to_string(std::hash<std::string>()(change)));
    ASSERT_TRUE(open()->insert(record_of(1, "alpha")));
    sql(std::string("UPDATE tenant SET checksum = 'edited', ") + change);
    const auto records = open()->load();
    ASSERT_FALSE(records) << change;
    EXPECT_EQ(records.error().code, Code::kCorrupt);
    EXPECT_NE(records.error().message.find("alpha"), std::string::npos) << records.error().message;
  }
}

TEST(DatabaseError, NamesCauseAndRemedy) {
  const auto message = [](int code, int system_errno) {
    const Error error = database_error(code, "/s/registry.db", "write to", "detail", system_errno);
    EXPECT_EQ(error.message.find('\n'), std::string::npos);
    EXPECT_NE(error.message.find("/s/registry.db"), std::string::npos);
    return error;
  };
  EXPECT_EQ(message(5, 0).code, Code::kUnavailable);              // SQLITE_BUSY
  EXPECT_EQ(message(13, 0).code, Code::kResourceExhausted);       // SQLITE_FULL
  EXPECT_EQ(message(10, ENOSPC).code, Code::kResourceExhausted);  // SQLITE_IOERR
  EXPECT_EQ(message(10 | (3 << 8), EDQUOT).code, Code::kResourceExhausted);
  EXPECT_EQ(message(10, EIO).code, Code::kUnavailable);
  EXPECT_EQ(message(8, 0).code, Code::kPermission);        // SQLITE_READONLY
  EXPECT_EQ(message(14, EACCES).code, Code::kPermission);  // SQLITE_CANTOPEN
  EXPECT_EQ(message(11, 0).code, Code::kCorrupt);
  EXPECT_EQ(message(26, 0).code, Code::kCorrupt);
}

}  // namespace
}  // namespace itif::control
