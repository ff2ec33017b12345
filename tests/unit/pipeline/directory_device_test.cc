// Where the device fails, its groups go on on the fallback, and come back when it has been reset.
#include <filesystem>

#include "directory_fixture.h"

namespace itif::pipeline::test {
namespace {

class DirectoryDevice : public DirectoryTest {
 protected:
  void SetUp() override {
    DirectoryTest::SetUp();
    directory->set_fallback(
        [this]() -> Result<std::unique_ptr<device::Device>> {
          if (!has_fallback) return fail(Code::kUnavailable, "no host");
          auto made = std::make_unique<FakeDevice>();
          fallback = made.get();
          return made;
        },
        [this] { ++failures; });
  }

  bool has_fallback = true;
  device::Device* fallback = nullptr;
  std::atomic<int> failures{0};
};

TEST_F(DirectoryDevice, NothingMovesWhileNothingHasFailed) {
  ASSERT_TRUE(admit(settings(1)));
  ASSERT_TRUE(directory->leave_failed_device({}));
  EXPECT_EQ(groups.size(), 1u);
  EXPECT_FALSE(directory->uses_fallback());
}

TEST_F(DirectoryDevice, AllGroupsMoveWithTheirNamesPlacesAndPlanners) {
  for (const uint32_t id : {1u, 2u}) ASSERT_TRUE(admit(settings(id)));
  TenantSettings apart = settings(3);
  apart.group = "apart";
  ASSERT_TRUE(admit(apart));
  ASSERT_TRUE(directory->set_planner("apart", "naive", {}));
  const std::vector<TenantEntry> before = directory->list();
  break_device();
  while (failures == 0) std::this_thread::yield();  // said behind what break_device() waits for
  EXPECT_EQ(failures, 1);
  const Status left = directory->leave_failed_device({});
  ASSERT_TRUE(left) << left.error().message;
  EXPECT_TRUE(directory->uses_fallback());
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[2], fallback);
  EXPECT_EQ(devices[3], fallback) << "what one group met the others were about to";
  const std::vector<TenantEntry> after = directory->list();
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].group, before[i].group);
    EXPECT_EQ(after[i].index, before[i].index);
    EXPECT_EQ(stage(snapshot().find(after[i].settings.id)->group)->name(), before[i].group);
  }
  ASSERT_EQ(directory->groups().size(), 2u) << "the old ones are gone";
  for (const GroupEntry& group : directory->groups()) {
    EXPECT_FALSE(group.device_failed);
    EXPECT_EQ(group.planner, group.name == "apart" ? "naive" : "packed");
  }
  ASSERT_TRUE(admit(settings(4)));
  EXPECT_EQ(groups.size(), 4u) << "new tenants join those that moved";
}

TEST_F(DirectoryDevice, AfterTheResetEverythingIsBack) {
  ASSERT_TRUE(admit(settings(1)));
  break_device();
  ASSERT_TRUE(directory->leave_failed_device({}));
  const Status reset = directory->reset_device({});
  ASSERT_TRUE(reset) << reset.error().message;
  EXPECT_FALSE(directory->uses_fallback());
  EXPECT_EQ(device.num_resets, 1);
  EXPECT_EQ(devices, (std::vector<device::Device*>{&device, fallback, &device}));
  // One in order is left first, and taken up again.
  ASSERT_TRUE(directory->reset_device({}));
  EXPECT_EQ(devices.size(), 5u);
  EXPECT_EQ(devices.back(), &device);
}

TEST_F(DirectoryDevice, ADeviceThatDoesNotComeBackIsServedByTheFallback) {
  ASSERT_TRUE(admit(settings(1)));
  device.fails_reset = true;
  EXPECT_FALSE(directory->reset_device({}));
  EXPECT_TRUE(directory->uses_fallback());
  ASSERT_EQ(directory->groups().size(), 1u);
  EXPECT_EQ(devices.back(), fallback);
}

TEST_F(DirectoryDevice, WhoseModelIsGoneStaysAndIsRefused) {
  const auto copy =
      std::filesystem::temp_directory_path() / ("itif-gone-" + std::to_string(getpid()));
  std::filesystem::copy(settings(1).model_dir, copy);
  TenantSettings gone = settings(1);
  gone.model_dir = copy;
  ASSERT_TRUE(admit(gone));
  ASSERT_TRUE(admit(settings(2)));
  std::filesystem::remove_all(copy);
  on_admit = [tries = std::make_shared<int>(0)](const model::Progress&) {
    if ((*tries)++ == 0) throw std::runtime_error("no such directory");
  };
  break_device();
  const Status left = directory->leave_failed_device({});
  ASSERT_FALSE(left);
  EXPECT_TRUE(stage(snapshot().find(1)->group)->device_failed());
  EXPECT_FALSE(stage(snapshot().find(2)->group)->device_failed());
}

TEST_F(DirectoryDevice, WithoutAFallbackRequestsAreRefused) {
  ASSERT_TRUE(admit(settings(1)));
  has_fallback = false;
  break_device();
  const Status left = directory->leave_failed_device({});
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, Code::kUnavailable);
  EXPECT_EQ(directory->groups().size(), 1u);
}

}  // namespace
}  // namespace itif::pipeline::test
