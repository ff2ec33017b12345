// The threads by which the compute pool is throttled: when they exist, and that none is left.
#include "device/host/pool_throttle.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace itif::device {
namespace {

// Counts the throttle's thread, and those that it started: they have its name.
size_t num_threads() {
  size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == "itif-throttle";
  }
  return count;
}

// Ends with the test's time-out if that number is never reached.
void wait_for_threads(size_t count) {
  while (num_threads() != count) std::this_thread::yield();
}

TEST(PoolThrottle, SleepersExistWhileAnyHolderAsks) {
  {
    PoolThrottle throttle(3);
    ASSERT_TRUE(throttle.start());
    ASSERT_TRUE(throttle.start());
    wait_for_threads(1);
    for (int turn = 0; turn < 20; ++turn) {
      throttle.hold();
      wait_for_threads(5);  // the throttle's thread, the team's, and three sleepers
      throttle.hold();
      throttle.release();
      wait_for_threads(5);
      throttle.release();
      wait_for_threads(1);
    }
  }
  wait_for_threads(0);
}

TEST(PoolThrottle, FastSwitchesEndInTheLastState) {
  {
    PoolThrottle throttle(1);
    ASSERT_TRUE(throttle.start());
    for (int turn = 0; turn < 2000; ++turn) {
      throttle.hold();
      throttle.release();
    }
    wait_for_threads(1);
    throttle.hold();
    wait_for_threads(3);
    throttle.release();
  }
  wait_for_threads(0);
}

TEST(PoolThrottle, DoesNothingBeforeItIsStarted) {
  PoolThrottle throttle(1);
  throttle.hold();
  throttle.release();
  EXPECT_EQ(num_threads(), 0u);
}

}  // namespace
}  // namespace itif::device
