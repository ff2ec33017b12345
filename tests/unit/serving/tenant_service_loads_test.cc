// The tenant service loads several models at the same time, in the background.
#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>

#include "base/background_thread.h"
#include "device/threads.h"
#include "tenant_service_fixture.h"

namespace itif::serving::test {
namespace {

using namespace std::chrono_literals;

class TenantServiceLoads : public TenantServiceTest {
 protected:
  void SetUp() override {
    if (device::num_process_cpus() < 2) GTEST_SKIP() << "one CPU: models load one by one";
    TenantServiceTest::SetUp();
  }

  // Counts the models that load at the same time. The first one waits for a second one.
  class Meeting {
   public:
    // Returns how many are there, with this one, when it comes.
    int enter() {
      std::unique_lock lock(mutex_);
      const int number = ++now_;
      most_ = std::max(most_, number);
      changed_.notify_all();
      changed_.wait_for(lock, 60s, [&] { return most_ >= 2; });
      return number;
    }
    void leave() {
      const std::lock_guard lock(mutex_);
      --now_;
    }
    int most() const { return most_; }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int now_ = 0, most_ = 0;
  };

  std::vector<tenant::Record> expect(uint32_t count) {
    std::vector<tenant::Record> records;
    for (uint32_t id = 1; id <= count; ++id) records.push_back(settings(id));
    service->expect(records, "");
    return records;
  }
  // Returns the results by tenant.
  std::map<uint32_t, Status> admit_listed(const std::vector<tenant::Record>& records) {
    std::map<uint32_t, Status> results;
    const std::thread::id caller = std::this_thread::get_id();
    service->admit_listed(records, [&](const tenant::Record& record, const Status& admitted) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      EXPECT_TRUE(results.emplace(record.id, admitted).second) << "told twice";
    });
    EXPECT_EQ(results.size(), records.size());
    return results;
  }

  Meeting meeting;
};

TEST_F(TenantServiceLoads, ListedTenantsLoadAtTheSameTime) {
  on_admit = [&](const model::Progress&) {
    meeting.enter();
    meeting.leave();
  };
  for (const auto& [id, admitted] : admit_listed(expect(6)))
    EXPECT_TRUE(admitted) << id << ": " << admitted.error().message;
  EXPECT_GE(meeting.most(), 2);
  EXPECT_EQ(groups.size(), 1u) << "the group is made once";
  EXPECT_EQ(service->num_loaded(), 6u);
  std::set<uint32_t> slots;
  for (uint32_t id = 1; id <= 6; ++id) {
    EXPECT_EQ(snapshot().find(id)->state, tenant::State::kServing);
    slots.insert(snapshot().find(id)->slot);
  }
  EXPECT_EQ(slots.size(), 6u);
}

TEST_F(TenantServiceLoads, AFailureConcernsOneTenant) {
  std::atomic<int> count{0};
  on_admit = [&](const model::Progress&) {
    if (++count == 2) throw std::runtime_error("tensor is misshapen");
  };
  std::vector<tenant::Record> records = expect(4);
  records[3].model_dir = "/no/such/directory";
  const auto results = admit_listed(records);
  int failed = 0;
  for (const auto& [id, admitted] : results) {
    EXPECT_EQ(service->tenant(id)->condition,
              admitted ? tenant::Condition::kLoaded : tenant::Condition::kFailed);
    failed += !admitted;
  }
  EXPECT_EQ(failed, 2);
  EXPECT_FALSE(results.at(4));
  EXPECT_EQ(info().used_slots, 2u);
}

// A group whose models all fail has no tenants.
TEST_F(TenantServiceLoads, AGroupWithoutModelsEndsAfterItsLastLoad) {
  on_admit = [&](const model::Progress&) {
    meeting.enter();
    meeting.leave();
    throw std::runtime_error("tensor is misshapen");
  };
  for (const auto& [id, admitted] : admit_listed(expect(2))) EXPECT_FALSE(admitted) << id;
  EXPECT_TRUE(service->groups().empty());
  on_admit = nullptr;
  EXPECT_TRUE(admit(settings(3)));
}

// Two models fit, but only one of them can be loaded at a time.
TEST_F(TenantServiceLoads, ModelsThatLackMemoryTogetherLoadAlone) {
  std::atomic<int> refused{0};
  Meeting asking;
  may_admit = [&]() -> Status {
    const bool is_alone = asking.enter() == 1;
    asking.leave();
    if (is_alone) return {};
    ++refused;
    return fail(Code::kResourceExhausted, "no memory left");
  };
  for (const auto& [id, admitted] : admit_listed(expect(2)))
    EXPECT_TRUE(admitted) << admitted.error().message;
  EXPECT_GE(refused, 1) << "both were tried together";
  EXPECT_EQ(service->num_loaded(), 2u);
}

TEST_F(TenantServiceLoads, AModelThatDoesNotFitIsRefusedAndTheOthersServe) {
  std::atomic<int> admitted_models{0};
  may_admit = [&]() -> Status {
    if (admitted_models == 3) return fail(Code::kResourceExhausted, "no memory left: remove one");
    ++admitted_models;
    return {};
  };
  // One by one, so that the fake's count is exact.
  on_admit = [lock = std::make_shared<std::mutex>()](const model::Progress&) {
    const std::lock_guard guard(*lock);
    std::this_thread::sleep_for(5ms);
  };
  int failed = 0;
  for (const auto& [id, admitted] : admit_listed(expect(4)))
    if (!admitted) {
      ++failed;
      EXPECT_EQ(admitted.error().code, Code::kResourceExhausted);
      EXPECT_NE(service->tenant(id)->failure.find("remove one"), std::string::npos);
    }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(service->num_loaded(), 3u);
}

TEST_F(TenantServiceLoads, CancellationEndsAllLoads) {
  std::atomic<int> loading{0};
  on_admit = [&](const model::Progress& progress) {
    ++loading;
    for (;;) {
      std::this_thread::sleep_for(1ms);
      progress("packing", 0.5);  // throws once cancelled
    }
  };
  const std::vector<tenant::Record> records = expect(8);
  std::thread stops([&] {
    while (loading < 2) std::this_thread::yield();
    service->cancel();
  });
  const auto before = std::chrono::steady_clock::now();
  for (const auto& [id, admitted] : admit_listed(records)) {
    EXPECT_EQ(admitted.error().code, Code::kUnavailable);
    EXPECT_EQ(service->tenant(id)->condition, tenant::Condition::kLoading)
        << "the next start loads it";
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
  stops.join();
}

// A group's last slots are for the models that are loading into them.
TEST_F(TenantServiceLoads, LoadsDoNotOverfillAGroup) {
  config.batching.max_tenants = 2;
  remake();
  on_admit = [&](const model::Progress&) {
    meeting.enter();
    meeting.leave();
  };
  for (const auto& [id, admitted] : admit_listed(expect(5))) EXPECT_TRUE(admitted) << id;
  EXPECT_EQ(service->groups().size(), 3u);
  for (const GroupInfo& group : service->groups()) EXPECT_LE(group.used_slots, 2u);
}

TEST_F(TenantServiceLoads, GroupsThatMoveLoadTheirModelsAtTheSameTime) {
  table.add_fallback(
      []() -> Result<std::unique_ptr<device::Device>> { return std::make_unique<FakeDevice>(); });
  for (const uint32_t id : {1u, 2u}) {
    tenant::Record apart = settings(id);
    apart.group = "group" + std::to_string(id);
    ASSERT_TRUE(admit(apart));
  }
  on_admit = [&](const model::Progress&) {
    meeting.enter();
    meeting.leave();
  };
  break_device();
  std::vector<std::string> stages;
  double last = 0;
  const Status left = service->leave_failed_device([&](const std::string& stage, double fraction) {
    stages.push_back(stage);
    last = fraction;
  });
  ASSERT_TRUE(left) << left.error().message;
  EXPECT_EQ(meeting.most(), 2);
  EXPECT_EQ(service->groups().size(), 2u);
  EXPECT_EQ(service->num_loaded(), 2u);
  ASSERT_FALSE(stages.empty());
  EXPECT_EQ(stages[0], "loading 2 models");
  EXPECT_LE(last, 1);
}

// Threads of this process by name, with the policies that they have.
std::multimap<std::string, int> policies() {
  std::multimap<std::string, int> found;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) {
    std::ifstream file("/proc/self/task/" + std::string(entry->d_name) + "/comm");
    std::string name;
    if (std::getline(file, name)) found.emplace(name, sched_getscheduler(std::atoi(entry->d_name)));
  }
  closedir(tasks);
  return found;
}

TEST_F(TenantServiceLoads, LoadersRunInTheBackgroundAndGroupsDoNot) {
  // A busy machine helps a loader.
  const auto in_background = [] {
    return sched_getscheduler(0) == SCHED_IDLE ||
           getpriority(PRIO_PROCESS, 0) == BackgroundThread::kHelpedNice;
  };
  bool loads_so = false, makes_so = false;
  on_make = [&] { makes_so = in_background(); };
  on_admit = [&](const model::Progress&) { loads_so = in_background(); };
  ASSERT_TRUE(admit(settings(1)));
  EXPECT_TRUE(loads_so);
  EXPECT_TRUE(makes_so);
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  auto all = policies();
  const auto are_idle = [&all] {
    return std::ranges::all_of(all, [](const auto& thread) {
      return thread.first != "itif-loader" || thread.second == SCHED_IDLE;
    });
  };
  // The group's thread names itself.
  for (int i = 0; i < 1000 && (all.count("itif-group") == 0 || !are_idle()); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    all = policies();
  }
  EXPECT_GE(all.count("itif-loader"), 2u);
  EXPECT_EQ(all.count("itif-group"), 1u);
  for (const auto& [name, policy] : all)
    EXPECT_EQ(policy, name == "itif-loader" ? SCHED_IDLE : SCHED_OTHER) << name;
}

}  // namespace
}  // namespace itif::serving::test
