// Tests on which CPUs the threads of a compute pool may run.
#include "device/host/pool_placement.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "device/threads.h"

namespace itif::device {
namespace {

struct Threads {
  std::vector<pid_t> ids;  // the leader first
  std::vector<cpu_set_t> allowed;
};

Threads threads_of_team(uint32_t count) {
  Threads team{.ids = std::vector<pid_t>(count), .allowed = std::vector<cpu_set_t>(count)};
#pragma omp parallel num_threads(count)
  {
    const auto i = static_cast<size_t>(omp_get_thread_num());
    team.ids[i] = ::gettid();
    EXPECT_EQ(sched_getaffinity(0, sizeof(cpu_set_t), &team.allowed[i]), 0);
  }
  return team;
}

// Moves the calling thread.
void run_on(unsigned cpu) {
  use_cpus(std::vector<unsigned>{cpu});
  ASSERT_EQ(sched_getcpu(), static_cast<int>(cpu));
}

class Placement : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cpus_.size() < 2) GTEST_SKIP() << "needs two CPUs";
    use_cpus({});
    (void)threads_of_team(2);  // they have the masks of their leader
  }
  ~Placement() override { use_cpus({}); }

  const std::vector<unsigned> cpus_ = process_cpus();
};

TEST_F(Placement, OtherThreadsKeepOffTheLeadersCpu) {
  PoolPlacement placement(2);
  placement.keep_apart();
  for (const unsigned cpu : {cpus_[0], cpus_[1], cpus_[0]}) {
    run_on(cpu);
    placement.keep_apart();
    const Threads team = threads_of_team(2);
    EXPECT_FALSE(CPU_ISSET(cpu, &team.allowed[1])) << cpu;
    EXPECT_EQ(CPU_COUNT(&team.allowed[1]), static_cast<int>(cpus_.size()) - 1);
  }
  placement.unpin();
  EXPECT_EQ(CPU_COUNT(&threads_of_team(2).allowed[1]), static_cast<int>(cpus_.size()));
  placement.unpin();
  placement.keep_apart();
  EXPECT_FALSE(CPU_ISSET(cpus_[0], &threads_of_team(2).allowed[1]));
  placement.unpin();
}

TEST_F(Placement, TheLeaderMayRunAnywhere) {
  PoolPlacement placement(2);
  placement.keep_apart();
  EXPECT_EQ(CPU_COUNT(&threads_of_team(2).allowed[0]), static_cast<int>(cpus_.size()));
  placement.unpin();
}

// As a group that moves to a thread of its own.
TEST_F(Placement, FindsTheTeamOfANewLeader) {
  PoolPlacement placement(2);
  placement.keep_apart();
  placement.unpin();
  std::thread([&] {
    run_on(cpus_[1]);
    use_cpus({});
    placement.keep_apart();
    const Threads team = threads_of_team(2);
    EXPECT_EQ(CPU_COUNT(&team.allowed[1]), static_cast<int>(cpus_.size()) - 1);
  }).join();
  // The leader of that team has ended, and its team with it.
  placement.keep_apart();
  EXPECT_EQ(CPU_COUNT(&threads_of_team(2).allowed[1]), static_cast<int>(cpus_.size()) - 1);
  placement.unpin();
}

TEST_F(Placement, LeavesTeamsAloneThatHaveTooFewCpus) {
  std::thread([&] {
    use_cpus(std::vector<unsigned>{cpus_[0]});
    PoolPlacement placement(2);
    placement.keep_apart();
    EXPECT_TRUE(CPU_ISSET(cpus_[0], &threads_of_team(2).allowed[1]));
    placement.unpin();
  }).join();
}

}  // namespace
}  // namespace itif::device
