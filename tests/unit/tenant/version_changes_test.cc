// Versions of a tenant: numbers and states after updates, canaries, promotions and rollbacks.
#include "tenant/version_changes.h"

#include <gtest/gtest.h>

namespace itif::tenant {
namespace {

// "3 active, 2 previous, 1 retired": newest first.
std::string states(const Record& record) {
  std::string text;
  for (const Version& version : all_versions(record))
    text += (text.empty() ? "" : ", ") + std::to_string(version.number) + " " +
            version_state_name(version.state);
  return text;
}

Record first_version() {
  Record record;
  record.model_dir = "/m/1";
  record.installed_unix_ns = 1;
  return record;
}

void install(Record& record, uint32_t number) {
  install_version(record, "/m/" + std::to_string(number), number);
}

// A rollback finds the group that the version was in.
TEST(VersionChanges, PlacementsStayWithTheirVersions) {
  Record record = first_version();
  const Placement first = {"g", 10, 20, 2}, second = {"h", 11, 21, 0};
  place_version(record, 1, first);
  EXPECT_EQ(record.placement, first);
  install(record, 2);
  EXPECT_EQ(record.placement, Placement());
  EXPECT_EQ(neighbour_group(record, 2), "g");
  place_version(record, 2, second);
  EXPECT_EQ(record.others[0].placement, first);
  install_canary(record, "/m/3", 5, 3);
  EXPECT_EQ(neighbour_group(record, 3), "h");
  place_version(record, 3, first);
  ASSERT_TRUE(promote_canary(record));
  EXPECT_EQ(record.placement, first);
  ASSERT_TRUE(roll_back(record));
  EXPECT_EQ(record.placement, second);
}

TEST(VersionChanges, ContentsStayWithTheirVersions) {
  Record record = first_version();
  const Contents first = {"a", "1"}, second = {"b", "2"};
  note_contents(record, 1, first);
  EXPECT_EQ(record.contents, first);
  install(record, 2);
  EXPECT_EQ(record.contents, Contents()) << "not loaded yet";
  EXPECT_EQ(record.others[0].contents, first);
  note_contents(record, 2, second);
  note_contents(record, 9, first);
  ASSERT_TRUE(roll_back(record));
  EXPECT_EQ(record.contents, first);
  EXPECT_EQ(record.others[0].contents, second);
}

TEST(VersionChanges, ChangedActiveVersionGetsANewNumber) {
  Record record = first_version();
  install(record, 2);
  note_contents(record, 2, {"a", "1"});
  place_version(record, 2, {"g", 10, 20, 2});
  install_canary(record, "/m/3", 5, 3);
  EXPECT_EQ(renumber_version(record, 2, {"b", "2"}, 9), 4u);
  EXPECT_EQ(states(record), "4 active, 3 canary, 2 previous, 1 retired");
  EXPECT_EQ(record.model_dir, "/m/2");
  EXPECT_EQ(record.installed_unix_ns, 9u);
  EXPECT_EQ(record.placement.group, "g");
  EXPECT_EQ(record.contents, (Contents{"b", "2"}));
  EXPECT_EQ(find_version(record, VersionState::kPrevious)->contents, (Contents{"a", "1"}));
  EXPECT_EQ(record.canary_percent, 5u);
}

TEST(VersionChanges, ChangedCanaryGetsANewNumber) {
  Record record = first_version();
  install_canary(record, "/m/2", 5, 3);
  note_contents(record, 2, {"a", "1"});
  EXPECT_EQ(renumber_version(record, 2, {"b", "2"}, 9), 3u);
  EXPECT_EQ(states(record), "3 canary, 2 rolled_back, 1 active");
  EXPECT_EQ(record.canary_percent, 5u);
  ASSERT_TRUE(promote_canary(record));
  EXPECT_EQ(record.contents, (Contents{"b", "2"}));
  EXPECT_EQ(record.model_dir, "/m/2");
}

TEST(VersionChanges, UpdateMakesTheActiveVersionThePreviousOne) {
  Record record = first_version();
  EXPECT_EQ(states(record), "1 active");
  install(record, 2);
  EXPECT_EQ(states(record), "2 active, 1 previous");
  EXPECT_EQ(record.model_dir, "/m/2");
  EXPECT_EQ(record.installed_unix_ns, 2u);
  install(record, 3);
  EXPECT_EQ(states(record), "3 active, 2 previous, 1 retired");
  EXPECT_EQ(find_version(record, VersionState::kPrevious)->model_dir, "/m/2");
}

TEST(VersionChanges, RollbackGoesBackOneVersionAtATime) {
  Record record = first_version();
  install(record, 2);
  install(record, 3);
  ASSERT_TRUE(roll_back(record));
  EXPECT_EQ(states(record), "3 rolled_back, 2 active, 1 previous");
  EXPECT_EQ(record.model_dir, "/m/2");
  EXPECT_EQ(record.installed_unix_ns, 2u);
  install(record, 4);
  EXPECT_EQ(states(record), "4 active, 3 rolled_back, 2 previous, 1 retired")
      << "a number is not used twice, and a version that was rolled back is never previous";
  ASSERT_TRUE(roll_back(record));
  ASSERT_TRUE(roll_back(record));
  EXPECT_EQ(states(record), "4 rolled_back, 3 rolled_back, 2 rolled_back, 1 active");
  const Record before = record;
  EXPECT_FALSE(roll_back(record));
  EXPECT_EQ(states(record), states(before));
}

TEST(VersionChanges, CanaryIsPromotedOrTakenBack) {
  Record record = first_version();
  install(record, 2);
  EXPECT_FALSE(promote_canary(record));
  install_canary(record, "/m/3", 5, 3);
  EXPECT_EQ(states(record), "3 canary, 2 active, 1 previous");
  EXPECT_EQ(record.canary_percent, 5u);
  EXPECT_EQ(record.model_dir, "/m/2");
  Record taken_back = record;
  ASSERT_TRUE(roll_back(taken_back));
  EXPECT_EQ(states(taken_back), "3 rolled_back, 2 active, 1 previous");
  EXPECT_EQ(taken_back.canary_percent, 0u);
  ASSERT_TRUE(promote_canary(record));
  EXPECT_EQ(states(record), "3 active, 2 previous, 1 retired");
  EXPECT_EQ(record.canary_percent, 0u);
  EXPECT_EQ(record.model_dir, "/m/3");
}

TEST(VersionChanges, OldVersionsAreForgotten) {
  Record record = first_version();
  for (uint32_t number = 2; number <= 40; ++number) {
    install(record, number);
    if (number % 3 == 0) {
      ASSERT_TRUE(roll_back(record));
    }
    ASSERT_LE(all_versions(record).size(), kMaxVersions);
    ASSERT_NE(find_version(record, VersionState::kPrevious), nullptr) << number;
  }
  install_canary(record, "/m/41", 1, 41);
  EXPECT_EQ(all_versions(record).size(), kMaxVersions);
  EXPECT_EQ(all_versions(record).front().number, 41u);
  ASSERT_TRUE(promote_canary(record));
  EXPECT_EQ(record.version, 41u);
}

}  // namespace
}  // namespace itif::tenant
