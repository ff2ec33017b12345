// When the device fails, its groups move to the fallback. A reset of the device moves them back.
#include <filesystem>

#include "tenant_service_fixture.h"

namespace itif::serving::test {
namespace {

class TenantServiceDevice : public TenantServiceTest {
 protected:
  void SetUp() override {
    TenantServiceTest::SetUp();
    table.add_fallback([this]() -> Result<std::unique_ptr<device::Device>> {
      if (!has_fallback) return fail(Code::kUnavailable, "no host");
      auto made = std::make_unique<FakeDevice>();
      fallback = made.get();
      return made;
    });
    service->on_device_failed([this] { ++failures; });
  }

  bool has_fallback = true;
  device::Device* fallback = nullptr;
  std::atomic<int> failures{0};
};

TEST_F(TenantServiceDevice, GroupsStayOnAWorkingDevice) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(service->leave_failed_device({}));
  EXPECT_EQ(groups.size(), 1u);
  EXPECT_FALSE(table.uses_fallback());
}

TEST_F(TenantServiceDevice, AllGroupsMoveAndKeepNamesIndicesAndSettings) {
  for (const uint32_t id : {1u, 2u}) ASSERT_TRUE(admit(settings(id)));
  tenant::Record apart = settings(3);
  apart.group = "apart";
  ASSERT_TRUE(admit(apart));
  ASSERT_TRUE(service->set_planner("apart", "naive", {}));
  const auto scheduler = service->set_scheduler("apart", "das:eta=0.3");
  ASSERT_TRUE(scheduler);
  EXPECT_EQ(*scheduler, "fair") << "the previous one";
  EXPECT_EQ(service->set_scheduler("none", "das").error().code, Code::kNotFound);
  EXPECT_EQ(service->set_share("none", 50).error().code, Code::kNotFound);
  EXPECT_EQ(service->set_scheduler("apart", "magic").error().code, Code::kInvalidArgument);
  const std::vector<TenantInfo> before = service->list();
  break_device();
  // The failure is reported after the event that break_device() waits for.
  while (failures == 0) std::this_thread::yield();
  EXPECT_EQ(failures, 1);
  const Status left = service->leave_failed_device({});
  ASSERT_TRUE(left) << left.error().message;
  EXPECT_TRUE(table.uses_fallback());
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[2], fallback);
  EXPECT_EQ(devices[3], fallback)
      << "all groups of the failed device move, not only the first to notice";
  const std::vector<TenantInfo> after = service->list();
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].model->group, before[i].model->group);
    EXPECT_EQ(after[i].index, before[i].index);
    EXPECT_EQ(info(snapshot().find(after[i].record.id)->group).name, before[i].model->group);
  }
  ASSERT_EQ(service->groups().size(), 2u) << "the old groups have ended";
  for (const GroupInfo& group : service->groups()) {
    EXPECT_FALSE(group.device_failed);
    EXPECT_EQ(group.planner, group.name == "apart" ? "naive" : "packed");
    EXPECT_EQ(group.scheduler, group.name == "apart" ? "das:eta=0.3" : "fair");
  }
  ASSERT_TRUE(admit(settings(4)));
  EXPECT_EQ(groups.size(), 4u) << "a new tenant joins a group that moved";
}

TEST_F(TenantServiceDevice, ResetMovesGroupsBack) {
  ASSERT_TRUE(admit(settings(1)));
  break_device();
  ASSERT_TRUE(service->leave_failed_device({}));
  const Status reset = service->reset_device({});
  ASSERT_TRUE(reset) << reset.error().message;
  EXPECT_FALSE(table.uses_fallback());
  EXPECT_EQ(device.num_resets, 1);
  EXPECT_EQ(devices, (std::vector<device::Device*>{&device, fallback, &device}));
  // Groups leave a working device, too, and return to it after the reset.
  ASSERT_TRUE(service->reset_device({}));
  EXPECT_EQ(devices.size(), 5u);
  EXPECT_EQ(devices.back(), &device);
}

TEST_F(TenantServiceDevice, FallbackServesWhenTheResetFails) {
  ASSERT_TRUE(admit(settings(1)));
  device.fails_reset = true;
  EXPECT_FALSE(table.is_lost());
  EXPECT_FALSE(service->reset_device({}));
  EXPECT_TRUE(table.is_lost());
  EXPECT_TRUE(table.uses_fallback());
  ASSERT_EQ(service->groups().size(), 1u);
  EXPECT_EQ(devices.back(), fallback);
  device.fails_reset = false;
  ASSERT_TRUE(service->reset_device({}));
  EXPECT_FALSE(table.is_lost() || table.uses_fallback());
  EXPECT_EQ(devices.back(), &device);
}

TEST_F(TenantServiceDevice, IsNotLostIfItsMemoryIsInUse) {
  ASSERT_TRUE(admit(settings(1)));
  device.is_in_use = true;
  const Status refused = service->reset_device({});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  for (const char* part : {"its memory is in use", "no group uses it", "`itifctl device reset`"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  EXPECT_FALSE(table.is_lost());
  EXPECT_EQ(devices.back(), fallback) << "it serves meanwhile";
  device.is_in_use = false;
  ASSERT_TRUE(service->reset_device({}));
  EXPECT_EQ(devices.back(), &device);
}

TEST_F(TenantServiceDevice, ResetNamesTheTenantsThatKeepItsMemory) {
  tenant::Record apart = settings(2);
  apart.group = "apart";
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(admit(apart));
  on_admit = [tries = std::make_shared<std::atomic<int>>(0)](const model::Progress&) {
    if ((*tries)++ == 0) throw std::runtime_error("no such directory");
  };
  const Status refused = service->reset_device({});
  ASSERT_FALSE(refused);
  const bool is_first = service->tenant(1u)->condition == tenant::Condition::kFailed;
  const std::string user = is_first ? service->tenant(1u)->model->group + " (tenants t1)"
                                    : std::string("apart (tenants t2)");
  EXPECT_NE(refused.error().message.find("no such directory"), std::string::npos);
  EXPECT_NE(refused.error().message.find("group " + user + " still uses"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(device.num_resets, 0);
  EXPECT_FALSE(table.is_lost());
  ASSERT_TRUE(service->reset_device({}));
  EXPECT_EQ(device.num_resets, 1);
}

TEST_F(TenantServiceDevice, GroupWithoutItsModelFilesStaysFailed) {
  const auto copy =
      std::filesystem::temp_directory_path() / ("itif-gone-" + std::to_string(getpid()));
  std::filesystem::copy(settings(1).model_dir, copy);
  tenant::Record gone = settings(1);
  gone.model_dir = copy;
  ASSERT_TRUE(admit(gone));
  ASSERT_TRUE(admit(settings(2)));
  std::filesystem::remove_all(copy);
  break_device();
  const Status left = service->leave_failed_device({});
  ASSERT_FALSE(left);
  EXPECT_TRUE(info(snapshot().find(1)->group).device_failed);
  EXPECT_FALSE(info(snapshot().find(2)->group).device_failed);
  EXPECT_EQ(service->tenant(1u)->condition, tenant::Condition::kFailed);
  EXPECT_NE(service->tenant(1u)->failure.find("cannot move to"), std::string::npos)
      << service->tenant(1u)->failure;
  EXPECT_EQ(service->tenant(2u)->condition, tenant::Condition::kLoaded);
  // `itifctl tenant resume` loads it again once its files are back.
  ASSERT_TRUE(service->update(settings(1), TenantService::Loads::kAll, {}));
  EXPECT_EQ(service->tenant(1u)->condition, tenant::Condition::kLoaded);
  EXPECT_EQ(service->tenant(1u)->failure, "");
  EXPECT_FALSE(info(snapshot().find(1)->group).device_failed);
  EXPECT_EQ(service->groups().size(), 1u) << "the failed group has ended";
}

TEST_F(TenantServiceDevice, TenantOfANamedGroupReturnsToItsNamesake) {
  tenant::Record first = settings(1), second = settings(2);
  first.group = second.group = "named";
  ASSERT_TRUE(admit(first));
  ASSERT_TRUE(admit(second));
  on_admit = [tries = std::make_shared<std::atomic<int>>(0)](const model::Progress&) {
    if ((*tries)++ == 0) throw std::runtime_error("no such directory");
  };
  break_device();
  ASSERT_FALSE(service->leave_failed_device({}));
  ASSERT_EQ(service->groups().size(), 2u) << "the failed group and its namesake";
  const bool is_first = service->tenant(1u)->condition == tenant::Condition::kFailed;
  const Status back = service->update(is_first ? first : second, TenantService::Loads::kAll, {});
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(snapshot().find(1)->group, snapshot().find(2)->group);
}

TEST_F(TenantServiceDevice, GroupThatCannotBeMadeFailsItsTenants) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(admit(settings(2)));
  on_make = [] { throw std::runtime_error("no memory"); };
  break_device();
  ASSERT_FALSE(service->leave_failed_device({}));
  for (const tenant::Info& info : service->tenants()) {
    EXPECT_EQ(info.condition, tenant::Condition::kFailed);
    EXPECT_NE(info.failure.find("no memory"), std::string::npos);
  }
}

TEST_F(TenantServiceDevice, MovedTenantHasTheBytesOfItsNewDevice) {
  ASSERT_TRUE(admit(settings(1)));
  EXPECT_EQ(service->tenant(1u)->model->weight_bytes, 100u);
  model_bytes = 70;
  break_device();
  ASSERT_TRUE(service->leave_failed_device({}));
  EXPECT_EQ(service->tenant(1u)->model->weight_bytes, 70u);
  EXPECT_EQ(service->tenant(1u)->condition, tenant::Condition::kLoaded);
}

TEST_F(TenantServiceDevice, GroupsGoToTheNextDeviceThatWorks) {
  device::Device* last = nullptr;
  table.add_fallback([&last]() -> Result<std::unique_ptr<device::Device>> {
    auto made = std::make_unique<FakeDevice>();
    last = made.get();
    return made;
  });
  ASSERT_TRUE(admit(settings(1)));
  break_device(0);
  ASSERT_TRUE(service->leave_failed_device({}));
  EXPECT_EQ(last, nullptr) << "the third device is not needed yet";
  break_device(snapshot().find(1)->group, 1);
  ASSERT_TRUE(service->leave_failed_device({}));
  EXPECT_EQ(devices, (std::vector<device::Device*>{&device, fallback, last}));
  ASSERT_TRUE(service->reset_device({}));
  EXPECT_EQ(device.num_resets, 1);
  EXPECT_EQ(devices.back(), &device);
}

TEST_F(TenantServiceDevice, LeavingTheDeviceFailsWithoutAFallback) {
  ASSERT_TRUE(admit(settings(1)));
  has_fallback = false;
  break_device();
  const Status left = service->leave_failed_device({});
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, Code::kUnavailable);
  EXPECT_EQ(service->groups().size(), 1u);
  EXPECT_EQ(service->tenant(1u)->condition, tenant::Condition::kFailed);
}

}  // namespace
}  // namespace itif::serving::test
