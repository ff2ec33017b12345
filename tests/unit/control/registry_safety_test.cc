// A registry that is lost, replaced or older than it was: noticed, named, and no id used twice.
#include <sys/xattr.h>

#include <cerrno>
#include <cstring>

#include "registry_safety_fixture.h"

namespace itif::control {
namespace {

TEST_F(RegistrySafety, ARemovedFileIsNoticedAtStart) {
  fill(3);
  fs::remove(db_);
  expect_refused("registry accept " + state_, Code::kNotFound);
  EXPECT_FALSE(fs::exists(db_)) << "an empty one would look like a new appliance's";
  expect_refused("ids up to 3", Code::kNotFound);
  accept();
  auto registry = open();
  EXPECT_TRUE(registry->load()->empty());
  EXPECT_EQ(*registry->allocate_id(), 4u) << "no id is used twice";
  registry.reset();
  EXPECT_EQ(*open()->allocate_id(), 5u) << "accepted once";
}

TEST_F(RegistrySafety, AnEmptiedFileIsNoticedAtStart) {
  fill(3);
  fs::resize_file(db_, 0);
  expect_refused("missing or empty", Code::kNotFound);
  fs::remove(db_);
  sql("CREATE TABLE a (b)");
  sql("DROP TABLE a");  // a database without tables
  ::chmod(db_.c_str(), 0600);
  expect_refused("missing or empty", Code::kNotFound);
  accept();
  EXPECT_EQ(*open()->allocate_id(), 4u);
}

TEST_F(RegistrySafety, AnOlderCopyIsNoticedAtStart) {
  fill(3);
  const std::string backup = bytes_of(db_);
  {
    auto registry = open();
    tenant::Record rotated = registry->load()->at(0);
    rotated.key.epoch = 9;
    ASSERT_TRUE(registry->update(rotated));
    ASSERT_TRUE(registry->allocate_id());
  }
  write_bytes(db_, backup);
  expect_refused("2 of the");
  accept();
  auto registry = open();
  EXPECT_EQ(registry->load()->size(), 2u);
  EXPECT_EQ(*registry->allocate_id(), 5u) << "4 was given out after the copy was made";
}

TEST_F(RegistrySafety, AnotherAppliancesRegistryIsNoticedAtStart) {
  fill(3);
  const std::string other = bytes_of(db_);
  fs::remove_all(state_);
  fill(1);
  write_bytes(db_, other);
  expect_refused("not the registry that was used here before");
  accept();
  EXPECT_EQ(open()->load()->size(), 2u);
}

TEST_F(RegistrySafety, AMarkThatIsLostIsMadeAgain) {
  fill(3);
  fs::remove(state_ + "/registry.mark");
  open();
  fs::remove(db_);
  expect_refused("ids up to 3", Code::kNotFound);
}

TEST_F(RegistrySafety, ADirectoryWithoutItsFilesIsRefused) {
  fill(3);
  if (::getxattr(state_.c_str(), "user.itif.last_id", nullptr, 0) < 0)
    GTEST_SKIP() << "no extended attributes here: " << std::strerror(errno);
  const auto remove_files = [&] {
    for (const auto& entry : fs::directory_iterator(state_)) fs::remove_all(entry.path());
  };
  remove_files();
  expect_refused("ids up to 3", Code::kNotFound);
  accept();
  EXPECT_EQ(*open()->allocate_id(), 4u);
  remove_files();
  expect_refused("ids up to 4", Code::kNotFound);
  // A database alone, from a backup perhaps: ids do not begin below those that were used.
  fs::remove_all(state_);
  fill(2);
  const std::string backup = bytes_of(db_);
  ASSERT_EQ(*open()->allocate_id(), 3u);
  remove_files();
  write_bytes(db_, backup);
  EXPECT_EQ(*open()->allocate_id(), 4u);
  // An older database with its mark.
  const std::string mark = state_ + "/registry.mark", older = bytes_of(db_);
  const std::string older_mark = bytes_of(mark);
  ASSERT_EQ(*open()->allocate_id(), 5u);
  write_bytes(db_, older);
  write_bytes(mark, older_mark);
  expect_refused("ids up to 5 were given out here");
}

TEST_F(RegistrySafety, ADamagedMarkIsRefused) {
  fill(3);
  const std::string path = state_ + "/registry.mark", good = bytes_of(path);
  for (size_t at = 0; at + 1 < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    write_bytes(path, bad);
    expect_refused("registry.mark is damaged");
  }
  for (const char* text : {"", "{}", "[]", "null", "{\"last_id\":1,\"last_id\":2}"}) {
    write_bytes(path, text);
    expect_refused("registry.mark is damaged");
  }
  accept();
  EXPECT_EQ(*open()->allocate_id(), 4u);
}

TEST_F(RegistrySafety, AcceptNeedsAStoppedItifd) {
  auto registry = open();
  EXPECT_EQ(accept_registry(state_).error().code, Code::kUnavailable);
  EXPECT_EQ(accept_registry(dir_ / "absent").error().code, Code::kNotFound);
}

// SQLite goes on writing to a file that has no name: an acknowledged change would be lost.
TEST_F(RegistrySafety, ChangesAreRefusedWhileAFileIsGone) {
  fill(2);
  auto registry = open();
  const auto expect_lost = [&](const char* how) {
    for (const Status& status : {registry->check_files(), registry->insert(record_of(9, "late")),
                                 registry->update(record_of(1, "renamed")), registry->remove(1),
                                 registry->put_group("g", {"itif", ""})}) {
      ASSERT_FALSE(status) << how;
      EXPECT_EQ(status.error().code, Code::kCorrupt);
      EXPECT_NE(status.error().message.find(how), std::string::npos) << status.error().message;
    }
    EXPECT_FALSE(registry->allocate_id());
    EXPECT_FALSE(registry->release());
  };
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const std::string path = db_ + suffix, aside = path + ".aside";
    fs::rename(path, aside);
    expect_lost("removed");
    fs::copy_file(aside, path);
    expect_lost("replaced");
    fs::rename(aside, path);
    EXPECT_TRUE(registry->check_files()) << "the very same file is back";
  }
  fs::rename(state_, dir_ / "aside");
  expect_lost("removed");
  fs::rename(dir_ / "aside", state_);
  EXPECT_TRUE(registry->insert(record_of(9, "late")));
  registry.reset();
  EXPECT_EQ(open()->load()->size(), 2u);
}

TEST_F(RegistrySafety, ChangesAreRefusedAfterTheFileWasEmptied) {
  fill(2);
  auto registry = open();
  fs::resize_file(db_, 0);
  const Status lost = registry->insert(record_of(9, "late"));
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().message.find("emptied"), std::string::npos) << lost.error().message;
}

// SQLite writes to the log from where it remembers its end: what is before would be lost.
TEST_F(RegistrySafety, ChangesAreRefusedAfterAFileWasOverwrittenInPlace) {
  for (const char* suffix : {"", "-wal"}) {
    fs::remove_all(state_);
    fill(2);
    auto registry = open();
    if (suffix[0] != '\0') {  // the log is empty before
      ASSERT_TRUE(registry->insert(record_of(7, "seven")));
    }
    const std::string older = bytes_of(db_ + suffix);
    if (suffix[0] != '\0') {
      ASSERT_TRUE(registry->insert(record_of(8, "eight")));
    }
    write_bytes(db_ + suffix, older);
    for (int i = 0; i < 2; ++i) {
      const Status lost = registry->insert(record_of(9, "late"));
      ASSERT_FALSE(lost) << suffix;
      EXPECT_EQ(lost.error().code, Code::kCorrupt);
      EXPECT_FALSE(registry->check_files());
    }
    fs::resize_file(db_ + suffix, 0);
    const Status emptied = registry->check_files();
    ASSERT_FALSE(emptied);
    EXPECT_NE(emptied.error().message.find("emptied"), std::string::npos)
        << emptied.error().message;
  }
}

TEST_F(RegistrySafety, ABackupWhileItRunsDisturbsNoChange) {
  fill(2);
  auto registry = open();
  for (uint32_t id = 10; id < 20; ++id) {
    ASSERT_TRUE(registry->insert(record_of(id, "tenant" + std::to_string(id))));
    fs::remove(dir_ / "backup");
    sql("VACUUM INTO '" + (dir_ / "backup") + "'");
    sql("PRAGMA wal_checkpoint(PASSIVE)");
    const Status checked = registry->check_files();
    EXPECT_TRUE(checked) << checked.error().message;
  }
}

TEST_F(RegistrySafety, AVacuumWhileItRunsIsAllowed) {
  fill(60);
  auto registry = open();
  for (uint32_t id = 2; id < 60; ++id) ASSERT_TRUE(registry->remove(id));
  const auto before = fs::file_size(db_);
  sql("VACUUM");
  sql("PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_LT(fs::file_size(db_), before);
  const Status checked = registry->insert(record_of(90, "late"));
  EXPECT_TRUE(checked) << checked.error().message;
}

// The schema of version 7 had no checksums.
TEST_F(RegistrySafety, UpgradesARegistryWithoutChecksumsAndMark) {
  fill(3);
  sql("DROP TABLE contents");
  for (const char* table : {"tenant", "other_version", "group_setting"})
    sql(std::string("ALTER TABLE ") + table + " DROP COLUMN checksum");
  sql("ALTER TABLE group_setting DROP COLUMN weight");
  drop_placements([&](const std::string& text) { sql(text); });
  sql("PRAGMA user_version = 7");
  fs::remove(state_ + "/registry.mark");
  {
    auto registry = open();
    const auto records = registry->load();
    ASSERT_TRUE(records) << records.error().message;
    ASSERT_EQ(records->size(), 2u);
    tenant::Record expected = without_digests(record_of(2, "tenant2"));
    expected.placement = expected.others[1].placement = {};
    expect_equal(records->at(1), expected);
    EXPECT_EQ(*registry->allocate_id(), 4u);
  }
  sql("UPDATE tenant SET weight = 30 WHERE id = 2");
  expect_refused("table tenant with id = 2");
}

}  // namespace
}  // namespace itif::control
