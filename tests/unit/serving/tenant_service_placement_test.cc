// Tenants are in the groups in which they were, in whichever order their models load.
#include <stdlib.h>

#include <chrono>
#include <filesystem>

#include "tenant_service_fixture.h"

namespace itif::serving::test {
namespace {

using namespace std::chrono_literals;

class TenantServicePlacement : public TenantServiceTest {
 protected:
  void SetUp() override {
    char path[] = "/tmp/itif-placement-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    directory_ = path;
    TenantServiceTest::SetUp();
  }
  void TearDown() override {
    TenantServiceTest::TearDown();
    std::filesystem::remove_all(directory_);
  }
  // A tenant whose model's directory is its own, so that its load can be told from others.
  tenant::Record tenant(uint32_t id, const std::string& group, const char* model = "plain-f32") {
    tenant::Record record = settings(id);
    record.model_dir = directory_ + "/" + record.name;
    record.group = group;
    std::filesystem::create_symlink(std::string(ITIF_GOLDENS_DIR "/") + model, record.model_dir);
    return record;
  }
  // Starts again from the records; the model of tenant `last` is opened last.
  void restart(std::vector<tenant::Record> records, uint32_t last) {
    service.reset();
    TenantServiceTest::TearDown();
    pipeline.reset();
    groups.clear();
    TenantServiceTest::SetUp();
    std::atomic<size_t> num_others{records.size() - 1};
    service->check_models_with([&, last = directory_ + "/t" + std::to_string(last)](
                                   const model::ModelFiles& files, const auto&) -> Status {
      if (files.directory != last) {
        --num_others;
        return {};
      }
      // The others are opened after their check, which takes some milliseconds.
      const auto until = std::chrono::steady_clock::now() + 500ms;
      while (num_others > 0 && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(100ms);
      return {};
    });
    service->expect(records, "");
    service->admit_listed(records, [](const tenant::Record& record, const Status& admitted) {
      EXPECT_TRUE(admitted) << record.name << ": " << admitted.error().message;
    });
  }
  std::string group_of(uint32_t id) const { return service->tenant(id)->model->group; }
  void expect_groups(std::map<uint32_t, std::string> groups, uint32_t last) {
    for (const auto& [id, group] : groups)
      EXPECT_EQ(group_of(id), group) << "tenant " << id << ", where the last to load is " << last;
  }

  std::string directory_;
};

constexpr const char* kOwn = "own";

TEST_F(TenantServicePlacement, ATenantWithoutAChosenGroupStaysOutOfAChosenOne) {
  ASSERT_TRUE(admit(tenant(1, "")));
  ASSERT_TRUE(admit(tenant(2, kOwn)));
  const std::string first = group_of(1);
  ASSERT_NE(first, kOwn);
  for (const uint32_t last : {1u, 2u, 1u}) {
    restart({record(1), record(2)}, last);
    expect_groups({{1, first}, {2, kOwn}}, last);
  }
}

TEST_F(TenantServicePlacement, ATenantThatJoinedAChosenGroupStaysInIt) {
  ASSERT_TRUE(admit(tenant(1, kOwn)));
  ASSERT_TRUE(admit(tenant(2, "")));
  ASSERT_EQ(group_of(2), kOwn);
  for (const uint32_t last : {1u, 2u, 1u}) {
    restart({record(1), record(2)}, last);
    expect_groups({{1, kOwn}, {2, kOwn}}, last);
    EXPECT_EQ(service->groups().size(), 1u);
  }
}

// Registries of older versions do not say where a tenant was placed.
TEST_F(TenantServicePlacement, UnplacedTenantsChooseInOrderOfTheirIds) {
  const std::vector<tenant::Record> records = {tenant(1, ""), tenant(2, kOwn), tenant(3, "")};
  for (const uint32_t last : {1u, 2u, 3u}) {
    restart(records, last);
    EXPECT_NE(group_of(1), kOwn) << last;
    expect_groups({{2, kOwn}, {3, group_of(1)}}, last);
    EXPECT_EQ(record(1).placement.group, group_of(1));
    EXPECT_EQ(record(2).placement.group, kOwn);
  }
}

TEST_F(TenantServicePlacement, AnUnplacedTenantThatFailsHoldsNoOtherUp) {
  std::vector<tenant::Record> records = {tenant(1, ""), tenant(2, kOwn)};
  records[0].model_dir = "/no/such/directory";
  service->expect(records, "");
  service->admit_listed(records, [](const tenant::Record& record, const Status& admitted) {
    EXPECT_EQ(admitted.has_value(), record.id == 2);
  });
  EXPECT_EQ(group_of(2), kOwn);
}

// A group takes models with as many or fewer tokens, positions and types than its first one.
TEST_F(TenantServicePlacement, AGroupThatIsMadeAgainTakesItsLargestModel) {
  ASSERT_TRUE(admit(tenant(1, kOwn)));
  tenant::Record placed = record(1);
  EXPECT_EQ(placed.placement.vocab, groups[0]->spec().vocab);
  EXPECT_EQ(placed.placement.max_positions, groups[0]->spec().max_positions);
  placed.placement.vocab += 7;
  placed.placement.max_positions += 8;
  placed.placement.type_vocab += 9;
  const model::BackboneSpec before = groups[0]->spec();
  restart({placed}, 1);
  const model::BackboneSpec& again = groups.back()->spec();
  EXPECT_EQ(again.vocab, before.vocab + 7);
  EXPECT_EQ(again.max_positions, before.max_positions + 8);
  EXPECT_EQ(again.type_vocab, before.type_vocab + 9);
}

TEST_F(TenantServicePlacement, AVersionOfAnotherArchitectureChoosesAgain) {
  ASSERT_TRUE(admit(tenant(1, kOwn)));
  ASSERT_TRUE(admit(tenant(2, "")));
  ASSERT_EQ(group_of(2), kOwn);
  tenant::Record next = record(2);
  tenant::install_version(next, tenant(3, "", "albert-f32").model_dir, clock.unix_ns());
  ASSERT_TRUE(change(next));
  const std::string albert = group_of(2);
  EXPECT_NE(albert, kOwn);
  for (const uint32_t last : {1u, 2u}) {
    restart({record(1), record(2)}, last);
    expect_groups({{1, kOwn}, {2, albert}}, last);
  }
  next = record(2);
  ASSERT_TRUE(tenant::roll_back(next));
  ASSERT_TRUE(change(next));
  EXPECT_EQ(group_of(2), kOwn) << "where the version was";
}

TEST_F(TenantServicePlacement, ANewVersionStaysInItsTenantsGroup) {
  ASSERT_TRUE(admit(tenant(1, "")));
  ASSERT_TRUE(admit(tenant(2, kOwn)));
  ASSERT_TRUE(admit(tenant(3, "")));
  ASSERT_TRUE(service->remove(1, kLong));
  ASSERT_TRUE(service->remove(3, kLong));
  ASSERT_TRUE(admit(tenant(4, "")));
  ASSERT_EQ(group_of(4), kOwn);
  ASSERT_TRUE(admit(tenant(5, "other")));  // takes the lower group number
  ASSERT_TRUE(install(4));
  EXPECT_EQ(group_of(4), kOwn);
  ASSERT_TRUE(install_canary(4, 5));
  EXPECT_EQ(tenant::find_version(record(4), tenant::VersionState::kCanary)->placement.group, kOwn);
  restart({record(2), record(4), record(5)}, 2);
  expect_groups({{2, kOwn}, {4, kOwn}, {5, "other"}}, 2);
  EXPECT_EQ(service->groups().size(), 2u);
}

}  // namespace
}  // namespace itif::serving::test
