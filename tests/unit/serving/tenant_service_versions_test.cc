// Versions of a tenant's model: swap, canary, promotion, rollback, memory, removal.
#include <future>

#include "telemetry/version_counts.h"
#include "tenant_service_fixture.h"

namespace itif::serving::test {
namespace {

class TenantServiceVersions : public TenantServiceTest {
 protected:
  std::vector<uint32_t> loaded(uint32_t id) const {
    std::vector<uint32_t> versions;
    for (const tenant::VersionFigures& figures : service->version_figures(id))
      if (figures.is_loaded) versions.push_back(figures.number);
    std::ranges::sort(versions);
    return versions;
  }
  using Versions = std::vector<uint32_t>;
};

TEST_F(TenantServiceVersions, UpdateSwapsTheVersionAndKeepsThePreviousOne) {
  ASSERT_TRUE(admit(settings(1)));
  const tenant::Tenant first = *snapshot().find(1);
  EXPECT_EQ(first.version, 1u);
  first.lease->row(0).add();  // a request of the first version
  ASSERT_TRUE(install(1));
  const tenant::Tenant second = *snapshot().find(1);
  EXPECT_EQ(second.version, 2u);
  EXPECT_NE(second.slot, first.slot);
  EXPECT_NE(second.lease, first.lease);
  EXPECT_EQ(second.index, first.index);
  EXPECT_EQ(service->in_flight(), 1u) << "the old version still has a request";
  EXPECT_EQ(loaded(1), (Versions{1, 2}));
  while (first.lease->num_in_flight() > 0) first.lease->row(0).remove();
  ASSERT_TRUE(install(1));
  EXPECT_EQ(loaded(1), (Versions{2, 3})) << "only the previous version keeps its slot";
  EXPECT_EQ(groups[0]->num_tenants(), 2u);
  EXPECT_EQ(info().used_slots, 2u);
  EXPECT_EQ(info().tenant_names, std::vector<std::string>{"t1"});
}

TEST_F(TenantServiceVersions, RollbackNeedsNoLoadWhileThePreviousVersionIsInMemory) {
  ASSERT_TRUE(admit(settings(1)));
  const tenant::Tenant first = *snapshot().find(1);
  ASSERT_TRUE(install(1));
  on_admit = [](const model::Progress&) { throw std::runtime_error("no load expected"); };
  groups[0]->on_admit = on_admit;
  tenant::Record back = record(1);
  ASSERT_TRUE(roll_back(back));
  ASSERT_TRUE(change(back));
  EXPECT_EQ(snapshot().find(1)->version, 1u);
  EXPECT_EQ(snapshot().find(1)->slot, first.slot);
  EXPECT_EQ(loaded(1), Versions{1});
  EXPECT_EQ(groups[0]->num_tenants(), 1u);
}

TEST_F(TenantServiceVersions, RollbackLoadsAPreviousVersionThatHasLeftMemory) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(install(1));
  ASSERT_TRUE(install(1));
  tenant::Record back = record(1);
  ASSERT_TRUE(roll_back(back));
  ASSERT_TRUE(change(back));
  EXPECT_EQ(snapshot().find(1)->version, 2u);
  back = record(1);
  ASSERT_TRUE(roll_back(back));
  ASSERT_TRUE(change(back));
  EXPECT_EQ(snapshot().find(1)->version, 1u);
  EXPECT_EQ(loaded(1), Versions{1});
}

TEST_F(TenantServiceVersions, FailedLoadChangesNothing) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(install(1));
  const tenant::Tenant before = *snapshot().find(1);
  groups[0]->on_admit = [](const model::Progress&) { throw std::runtime_error("bad tensor"); };
  const Status failed = install(1);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("bad tensor"), std::string::npos);
  EXPECT_FALSE(install_canary(1, 50));
  EXPECT_EQ(snapshot().find(1)->version, 2u);
  EXPECT_EQ(snapshot().find(1)->slot, before.slot);
  EXPECT_FALSE(snapshot().find(1)->canary);
  EXPECT_EQ(record(1).version, 2u);
  EXPECT_EQ(loaded(1), (Versions{1, 2}));
  EXPECT_EQ(service->tenant(1u)->condition, tenant::Condition::kLoaded);
}

// control does so if it cannot save the change.
TEST_F(TenantServiceVersions, UpdateWithTheOldRecordUndoesAChangeWithoutALoad) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(install(1));
  const tenant::Record old = record(1);
  tenant::Record next = old;
  ASSERT_TRUE(roll_back(next));
  ASSERT_TRUE(service->update(next, TenantService::Loads::kMissing, {}));
  EXPECT_EQ(snapshot().find(1)->version, 1u);
  groups[0]->on_admit = [](const model::Progress&) {
    throw std::runtime_error("no load expected");
  };
  ASSERT_TRUE(change(old));
  EXPECT_EQ(snapshot().find(1)->version, 2u);
  EXPECT_EQ(loaded(1), (Versions{1, 2}));
}

TEST_F(TenantServiceVersions, CanaryServesBesideTheActiveVersion) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(install_canary(1, 30));
  const tenant::Tenant* t = snapshot().find(1);
  ASSERT_TRUE(t->canary);
  EXPECT_EQ(t->version, 1u);
  EXPECT_EQ(t->canary->version, 2u);
  EXPECT_NE(t->canary->slot, t->slot);
  EXPECT_NE(t->canary->lease, t->lease);
  EXPECT_EQ(t->canary_percent, 30u);

  tenant::Record more = record(1);
  more.canary_percent = 60;
  ASSERT_TRUE(change(more));
  EXPECT_EQ(snapshot().find(1)->canary_percent, 60u);
  EXPECT_EQ(snapshot().find(1)->canary->slot, 1u);

  tenant::Record promoted = record(1);
  ASSERT_TRUE(promote_canary(promoted));
  ASSERT_TRUE(change(promoted));
  EXPECT_EQ(snapshot().find(1)->version, 2u);
  EXPECT_EQ(snapshot().find(1)->slot, 1u) << "it is not loaded again";
  EXPECT_FALSE(snapshot().find(1)->canary);
  EXPECT_EQ(loaded(1), (Versions{1, 2}));
}

TEST_F(TenantServiceVersions, RolledBackCanaryIsFreed) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(install(1));
  ASSERT_TRUE(install_canary(1, 30));
  EXPECT_EQ(loaded(1), (Versions{1, 2, 3}));
  tenant::Record back = record(1);
  ASSERT_TRUE(roll_back(back));
  ASSERT_TRUE(change(back));
  EXPECT_EQ(snapshot().find(1)->version, 2u);
  EXPECT_FALSE(snapshot().find(1)->canary);
  EXPECT_EQ(loaded(1), (Versions{1, 2}));
}

TEST_F(TenantServiceVersions, RestoresTheActiveVersionAndTheCanary) {
  tenant::Record saved = settings(1);
  tenant::install_version(saved, saved.model_dir, 2);
  tenant::install_canary(saved, saved.model_dir, 10, 3);
  service->expect({saved}, "");
  ASSERT_TRUE(admit(saved));
  EXPECT_EQ(snapshot().find(1)->version, 2u);
  EXPECT_EQ(snapshot().find(1)->canary->version, 3u);
  EXPECT_EQ(loaded(1), (Versions{2, 3})) << "the previous version stays on disk";
}

TEST_F(TenantServiceVersions, TenantServesWithoutACanaryThatCannotBeRestored) {
  tenant::Record saved = settings(1);
  tenant::install_canary(saved, "/no/such/directory", 10, 3);
  service->expect({saved}, "");
  ASSERT_TRUE(admit(saved));
  EXPECT_EQ(snapshot().find(1)->version, 1u);
  EXPECT_FALSE(snapshot().find(1)->canary);
  EXPECT_EQ(loaded(1), Versions{1});
  const std::string failure = service->tenants().front().canary_failure;
  EXPECT_NE(failure.find("/no/such/directory"), std::string::npos) << failure;
}

TEST_F(TenantServiceVersions, PreviousVersionsMakeRoomForNewModels) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(admit(settings(2)));
  ASSERT_TRUE(install(1));
  ASSERT_TRUE(install(2));
  groups[0]->max_models = 4;
  EXPECT_EQ(groups[0]->num_tenants(), 4u);
  ASSERT_TRUE(admit(settings(3)));
  EXPECT_EQ(loaded(1), Versions{2}) << "the one that was replaced first leaves first";
  EXPECT_EQ(loaded(2), (Versions{1, 2}));
  ASSERT_TRUE(install_canary(1, 5));
  EXPECT_EQ(loaded(2), Versions{2});
  const Status refused = admit(settings(4));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(groups[0]->num_tenants(), 4u) << "active versions and canaries stay";
}

TEST_F(TenantServiceVersions, PreviousVersionGivesItsSlotInAFullGroup) {
  config.batching.max_tenants = 2;
  remake();
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(install(1));
  ASSERT_TRUE(admit(settings(2)));
  EXPECT_EQ(service->groups().size(), 1u) << "no second group is made";
  EXPECT_EQ(loaded(1), Versions{2});
}

TEST_F(TenantServiceVersions, FiguresAreKeptByVersion) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(install_canary(1, 50));
  const tenant::Tenant* t = snapshot().find(1);
  for (int i = 0; i < 9; ++i) t->lease->counts->add_answer(0, 2'000'000);
  t->lease->counts->add_error(0);
  for (int i = 0; i < 2; ++i) t->lease->counts->add_refused(0);
  t->canary->lease->counts->add_answer(0, 8'000'000);
  t->canary->lease->row(0).add();
  t->canary->lease->row(0).add();
  t->canary->lease->row(0).add();
  const auto all = service->version_figures(1);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].number, 1u);
  EXPECT_EQ(all[0].answered, 9u);
  EXPECT_EQ(all[0].errors, 1u);
  EXPECT_EQ(all[0].refused, 2u);
  EXPECT_NEAR(static_cast<double>(all[0].p99_ns), 2e6, 0.5e6);
  EXPECT_EQ(all[1].answered, 1u);
  EXPECT_EQ(all[1].in_flight, 3u);
  EXPECT_NEAR(static_cast<double>(all[1].p50_ns), 8e6, 2e6);
  while (t->canary->lease->num_in_flight() > 0) t->canary->lease->row(0).remove();
}

TEST_F(TenantServiceVersions, RemovalIsBoundedAndFreesTheSlotLater) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(admit(settings(2)));
  ASSERT_TRUE(install_canary(1, 50));
  const auto lease = snapshot().find(1)->lease;
  const uint32_t index = snapshot().find(1)->index;
  lease->row(0).add();
  lease->row(0).add();
  const auto removal = service->remove(1, 5'000'000);
  ASSERT_TRUE(removal);
  EXPECT_EQ(removal->in_flight, 2u);
  EXPECT_GE(removal->waited_ns, 5'000'000u);
  EXPECT_EQ(snapshot().find(1), nullptr);
  EXPECT_EQ(service->in_flight(), 2u);
  EXPECT_EQ(groups[0]->num_tenants(), 2u) << "the canary's slot is free, the other is in use";
  service->free_unused();
  EXPECT_EQ(groups[0]->num_tenants(), 2u);
  while (lease->num_in_flight() > 0) lease->row(0).remove();
  service->free_unused();
  EXPECT_EQ(groups[0]->num_tenants(), 1u);
  EXPECT_NE(snapshot().find(2)->index, index);
}

TEST_F(TenantServiceVersions, CanaryMovesWithItsGroupAndThePreviousVersionDoesNot) {
  table.add_fallback(
      []() -> Result<std::unique_ptr<device::Device>> { return std::make_unique<FakeDevice>(); });
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(install(1));
  ASSERT_TRUE(install_canary(1, 40));
  snapshot().find(1)->canary->lease->counts->add_answer(0, 1000);
  break_device();
  ASSERT_TRUE(service->leave_failed_device({}));
  const tenant::Tenant* t = snapshot().find(1);
  EXPECT_EQ(t->version, 2u);
  ASSERT_TRUE(t->canary);
  EXPECT_EQ(t->canary->version, 3u);
  EXPECT_EQ(t->canary->group, t->group);
  EXPECT_EQ(loaded(1), (Versions{2, 3}));
  EXPECT_EQ(service->groups().size(), 1u);
  EXPECT_EQ(service->version_figures(1).back().answered, 1u) << "its figures continue";
}

}  // namespace
}  // namespace itif::serving::test
