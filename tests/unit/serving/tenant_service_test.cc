// The tenant service: admission, update, removal, drain, cancellation.
#include <sys/inotify.h>
#include <unistd.h>

#include "serving/model_contents.h"
#include "tenant_service_fixture.h"

#include <filesystem>
#include <fstream>
#include <future>

namespace itif::serving::test {
namespace {

TEST_F(TenantServiceTest, AdmittedTenantIsPublished) {
  tenant::Record s = settings(7);
  s.weight = 3;
  s.quota_rps = 9;
  const Status admitted = admit(s);
  ASSERT_TRUE(admitted) << admitted.error().message;
  EXPECT_EQ(service->tenant(7u)->model->max_tokens, 512u);
  const tenant::Tenant* t = snapshot().find(7);
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->state, tenant::State::kServing);
  EXPECT_EQ(t->weight, 3u);
  EXPECT_EQ(t->quota_rps, 9u);
  EXPECT_EQ(t->group, 0);
  EXPECT_NE(inbox(), nullptr);
  EXPECT_EQ(admit(s).error().code, Code::kAlreadyExists);
  EXPECT_EQ(service->groups().at(0).tenant_names, std::vector<std::string>{"t7"});
}

TEST_F(TenantServiceTest, ExpectLeavesOutTenantsBeyondTheMaximum) {
  std::vector<tenant::Record> records;
  constexpr uint32_t max = tenant::kMaxTenants;
  for (uint32_t id = 1; id <= max + 2; ++id) records.push_back(settings(id));
  service->expect(records, "");
  EXPECT_EQ(service->tenants().size(), max);
  EXPECT_TRUE(service->tenant(max));
  EXPECT_FALSE(service->tenant(max + 1));
}

TEST_F(TenantServiceTest, ExpectedTenantsAreKnownAndNotServed) {
  tenant::Record paused = settings(2);
  paused.state = tenant::State::kPaused;
  service->expect({settings(1), paused}, "");
  ASSERT_NE(snapshot().find(1), nullptr);
  EXPECT_EQ(snapshot().find(1)->state, tenant::State::kNotLoaded);
  EXPECT_EQ(snapshot().find(1)->key.epoch, 1);
  EXPECT_EQ(snapshot().find(2)->state, tenant::State::kPaused);
  EXPECT_NE(snapshot().find(1)->index, snapshot().find(2)->index);
  EXPECT_EQ(service->num_loaded(), 0u);
  EXPECT_EQ(service->list().size(), 2u);

  tenant::Record rotated = settings(1);
  rotated.key.epoch = 2;
  service->expect({rotated}, "");
  EXPECT_EQ(snapshot().find(1)->key.epoch, 2);
  EXPECT_EQ(service->update(rotated, TenantService::Loads::kMissing, {}).error().code,
            Code::kNotFound);

  const uint32_t index = snapshot().find(1)->index;
  ASSERT_TRUE(admit(rotated));
  EXPECT_EQ(snapshot().find(1)->state, tenant::State::kServing);
  EXPECT_EQ(snapshot().find(1)->index, index) << "its counters continue";
  EXPECT_TRUE(service->remove(2, kLong));
  EXPECT_EQ(snapshot().find(2), nullptr);
}

TEST_F(TenantServiceTest, MissingWeightsMakeNoGroup) {
  const auto dir = std::filesystem::temp_directory_path() / "itif-directory-test";
  std::filesystem::create_directories(dir);
  std::filesystem::copy_file(ITIF_GOLDENS_DIR "/plain-f32/config.json", dir / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  tenant::Record s = settings(1);
  s.model_dir = dir;  // a config.json without weights
  service->expect({s}, "");
  EXPECT_FALSE(admit(s));
  EXPECT_TRUE(groups.empty()) << "memory was reserved for a model without weights";
  EXPECT_EQ(snapshot().find(1)->state, tenant::State::kNotLoaded);
  std::filesystem::remove_all(dir);
}

TEST_F(TenantServiceTest, ModelOfANewGroupIsOpenedOnce) {
  const int events = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  const std::string weights = settings(1).model_dir + "/model.safetensors";
  ASSERT_GE(::inotify_add_watch(events, weights.c_str(), IN_OPEN | IN_CLOSE), 0);
  tenant::Record known = settings(1);  // no file is read for its digest
  known.contents = {std::string(64, 'a'), file_stamp({known.model_dir})};
  ASSERT_TRUE(admit(known));
  EXPECT_EQ(groups.size(), 1u);
  char buffer[4096];
  const ssize_t bytes = ::read(events, buffer, sizeof buffer);
  // Equal events that follow each other would be merged.
  EXPECT_EQ(bytes, static_cast<ssize_t>(2 * sizeof(inotify_event))) << "opened and closed";
  ::close(events);
}

TEST_F(TenantServiceTest, ExceptionOfALibraryFailsOnlyItsTenant) {
  on_make = [] { throw std::runtime_error("loader threw"); };
  const Status refused = admit(settings(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInternal);
  EXPECT_FALSE(service->tenant(1u)) << "a new tenant that cannot be loaded is not listed";
  EXPECT_EQ(snapshot().find(1), nullptr);

  service->expect({settings(2)}, "");
  EXPECT_EQ(service->tenant(2u)->condition, tenant::Condition::kLoading);
  ASSERT_FALSE(admit(settings(2)));
  EXPECT_EQ(service->tenant(2u)->condition, tenant::Condition::kFailed);
  EXPECT_NE(service->tenant("t2")->failure.find("loader threw"), std::string::npos);
  on_make = nullptr;
  ASSERT_TRUE(admit(settings(2)));
  EXPECT_EQ(service->tenant(2u)->condition, tenant::Condition::kLoaded);
  EXPECT_EQ(service->tenant(2u)->failure, "");
}

TEST_F(TenantServiceTest, NewTenantIsListedWhileItLoads) {
  std::optional<tenant::Info> meanwhile;
  on_make = [&] { meanwhile = service->tenant(9u); };
  ASSERT_TRUE(admit(settings(9)));
  ASSERT_TRUE(meanwhile);
  EXPECT_EQ(meanwhile->condition, tenant::Condition::kLoading);
  ASSERT_TRUE(admit(settings(3)));
  const std::vector<tenant::Info> all = service->tenants();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].record.id, 3u) << "in order of ids";
}

TEST_F(TenantServiceTest, AFailedGroupTakesNoNewTenants) {
  ASSERT_TRUE(admit(settings(1)));
  const std::string failed = service->list().at(0).model->group;
  break_device();
  EXPECT_TRUE(service->groups().at(0).device_failed);
  tenant::Record named = settings(2);
  named.group = failed;
  const auto refused = admit(named);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message.find("device has failed"), std::string::npos);
  const auto elsewhere = admit(settings(3));
  ASSERT_TRUE(elsewhere);
  EXPECT_NE(service->tenant(3u)->model->group, failed);
  // A reload moves the tenant off the failed group, which then ends.
  ASSERT_TRUE(service->update(settings(1), TenantService::Loads::kAll, {}));
  EXPECT_EQ(service->groups().size(), 1u);
  EXPECT_EQ(service->list().at(0).model->group, service->tenant(3u)->model->group);
}

TEST_F(TenantServiceTest, RemovedTenantKeepsItsSlotWhileInUse) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(admit(settings(2)));
  auto& cell = pipeline->shared().tenants;
  const tenant::Snapshot& held = cell.acquire(kReader);
  const tenant::Tenant* t = held.find(1);
  t->lease->row(0).add();  // one of its requests is in flight
  auto removal = std::async(std::launch::async, [&] { return service->remove(1, kLong); });
  while (snapshot().find(1) != nullptr) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(groups[0]->num_tenants(), 2u) << "a reader holds the old snapshot";
  EXPECT_EQ(t->id, 1u);
  EXPECT_EQ(service->in_flight(), 1u) << "a drain waits for tenants being removed";
  tenant::Lease& lease = *t->lease;
  cell.acquire(kReader);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(groups[0]->num_tenants(), 2u) << "a request is in flight";
  lease.row(0).remove();
  EXPECT_TRUE(removal.get());
  EXPECT_EQ(groups[0]->num_tenants(), 1u);
}

TEST_F(TenantServiceTest, AReloadSwapsSlotsAndKeepsTheIndex) {
  ASSERT_TRUE(admit(settings(1)));
  const tenant::Tenant before = *snapshot().find(1);
  ASSERT_TRUE(service->update(settings(1), TenantService::Loads::kAll, {}));
  EXPECT_NE(snapshot().find(1)->slot, before.slot);
  EXPECT_EQ(snapshot().find(1)->index, before.index);
  EXPECT_EQ(groups[0]->num_tenants(), 1u) << "the old slot is free again";
  ASSERT_TRUE(service->remove(1, kLong));
  EXPECT_EQ(inbox(), nullptr) << "a group without tenants ends";
}

TEST_F(TenantServiceTest, DrainEndsWhenIdleOrTimedOut) {
  ASSERT_TRUE(admit(settings(1)));
  snapshot().find(1)->lease->row(0).add();
  snapshot().find(1)->lease->row(0).add();
  EXPECT_EQ(service->drain(1'000'000), 2u);
  EXPECT_EQ(snapshot().intake(), tenant::Intake::kRefuse);
  while (snapshot().find(1)->lease->num_in_flight() > 0) snapshot().find(1)->lease->row(0).remove();
  EXPECT_EQ(service->drain(60'000'000'000), 0u);
  service->resume_from_drain();
  EXPECT_EQ(snapshot().intake(), tenant::Intake::kAccept);
}

TEST_F(TenantServiceTest, CancellingEndsALoad) {
  std::promise<void> inside;
  on_admit = [&](const model::Progress& progress) {
    inside.set_value();
    for (;;) {
      progress("packing", 0.5);
      std::this_thread::yield();
    }
  };
  service->expect({settings(1)}, "");
  auto load = std::async(std::launch::async, [&] { return admit(settings(1)); });
  inside.get_future().wait();
  EXPECT_EQ(service->drain(0), 0u) << "a drain does not wait for the load";
  EXPECT_EQ(snapshot().intake(), tenant::Intake::kRefuse);
  service->cancel();
  EXPECT_EQ(load.get().error().code, Code::kUnavailable);
  EXPECT_EQ(inbox(), nullptr);
  EXPECT_EQ(snapshot().find(1)->state, tenant::State::kNotLoaded);
}

TEST_F(TenantServiceTest, CancellingEndsWaitsAndKeepsSlotsInUse) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(admit(settings(2)));
  auto lease = snapshot().find(1)->lease;
  lease->row(0).add();
  auto removal = std::async(std::launch::async, [&] { return service->remove(1, kLong); });
  while (snapshot().find(1) != nullptr) std::this_thread::yield();
  auto drain = std::async(std::launch::async, [&] { return service->drain(86'400'000'000'000); });
  while (snapshot().intake() != tenant::Intake::kRefuse) std::this_thread::yield();
  service->cancel();
  EXPECT_EQ(drain.get(), 1u);
  EXPECT_TRUE(removal.get());
  EXPECT_EQ(groups[0]->num_tenants(), 2u) << "a request still refers to the slot";
  service->resume_from_drain();
  EXPECT_EQ(snapshot().intake(), tenant::Intake::kRefuse) << "a shutdown's drain stays";
  auto last = std::async(std::launch::async, [&] { return service->drain(60'000'000'000); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  while (lease->num_in_flight() > 0) lease->row(0).remove();
  EXPECT_EQ(last.get(), 0u) << "the shutdown's own drain waits for it";
}

TEST_F(TenantServiceTest, ExecutorsSpinOnlyWhileEachHasACpu) {
  config.data_plane.polling = "busy";
  remake();  // one executor CPU
  tenant::Record first = settings(1), second = settings(2);
  first.group = "a";
  second.group = "b";
  ASSERT_TRUE(admit(first));
  EXPECT_TRUE(info(0).spins);
  ASSERT_TRUE(admit(second));
  EXPECT_FALSE(info(0).spins);
  EXPECT_FALSE(info(1).spins);
  ASSERT_TRUE(service->remove(1, kLong));
  EXPECT_TRUE(info(1).spins);
}

TEST_F(TenantServiceTest, DefaultBatchesOfAGpuLeaveItsMemoryToModels) {
  constexpr uint64_t kPerToken = 10;
  workspace_bytes_per_token = kPerToken;
  uint32_t id = 0;
  // Returns the largest batch of a new group, in tokens; 0: the group cannot be made.
  const auto tokens_of = [&](size_t memory_bytes) -> uint32_t {
    device.set_memory_bytes(memory_bytes);
    tenant::Record one = settings(++id);
    one.group = "g" + std::to_string(id);
    if (!admit(one)) return 0;
    return info(snapshot().find(id)->group).max_batch_tokens;
  };
  EXPECT_EQ(tokens_of(0), 8192u) << "not known";
  EXPECT_EQ(tokens_of(8 * 8192 * kPerToken), 8192u);
  EXPECT_EQ(tokens_of(8 * 8192 * kPerToken - 1), 4096u);
  EXPECT_EQ(tokens_of(8 * 2048 * kPerToken), 2048u);
  EXPECT_EQ(tokens_of(8), 1024u);
  kv_bytes = 1 << 30;
  EXPECT_EQ(tokens_of(8 * 8192 * kPerToken), 8192u) << "batches do not bound the K/V cache";
  may_make = [](uint32_t max_tokens) { return max_tokens <= 2048; };
  EXPECT_EQ(tokens_of(size_t{1} << 40), 2048u) << "no more memory is free";
  may_make = [](uint32_t) { return false; };
  EXPECT_EQ(tokens_of(size_t{1} << 40), 0u);
}

TEST_F(TenantServiceTest, ConfiguredBatchesMayTakeAnyMemory) {
  config.batching.max_tokens = 4096;
  remake();
  workspace_bytes_per_token = 10;
  device.set_memory_bytes(8);
  ASSERT_TRUE(admit(settings(1)));
  EXPECT_EQ(info().max_batch_tokens, 4096u);
}

}  // namespace
}  // namespace itif::serving::test
