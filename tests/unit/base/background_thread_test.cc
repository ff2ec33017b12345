#include "base/background_thread.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "base/clock.h"

namespace itif {
namespace {

constexpr uint64_t kPeriod = BackgroundThread::kPeriodNs;

// Runs `test` on a thread, because a background thread remains one.
template <class Test>
void on_a_thread(const Test& test) {
  std::thread(test).join();
}

TEST(BackgroundThread, OnlyTheThreadMoves) {
  const int before = sched_getscheduler(0);
  on_a_thread([] {
    const BackgroundThread background;
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
    on_a_thread([] { EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE) << "a thread it starts"; });
  });
  EXPECT_EQ(sched_getscheduler(0), before);
}

TEST(BackgroundThread, AThreadWithoutCpuTimeIsHelpedUntilItHasSome) {
  on_a_thread([] {
    BackgroundThread background;
    background.begin_work();
    // As if it had used no CPU time so far.
    uint64_t now = SystemClock().now_ns() + kPeriod, used = kPeriod * 1000;
    background.keep_pace(now, used);
    EXPECT_FALSE(background.is_helped()) << "it had a whole CPU";
    background.keep_pace(now += kPeriod - 1, used);
    EXPECT_FALSE(background.is_helped()) << "the period has not passed";
    background.keep_pace(now += 1, used += kPeriod / 100);
    EXPECT_TRUE(background.is_helped());
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), BackgroundThread::kHelpedNice);
    background.keep_pace(now += kPeriod, used += kPeriod / 4);
    EXPECT_TRUE(background.is_helped()) << "its part of a busy CPU";
    background.keep_pace(now += kPeriod, used += kPeriod * 3 / 4);
    EXPECT_FALSE(background.is_helped());
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
    background.keep_pace(now += kPeriod, used);
    EXPECT_TRUE(background.is_helped());
    background.end_work();
    EXPECT_FALSE(background.is_helped()) << "other work may have a free CPU";
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
  });
}

// Another thread may help it, as the one that waits for its work does.
TEST(BackgroundThread, AnotherThreadKeepsItsPace) {
  std::atomic<BackgroundThread*> made{nullptr};
  std::atomic<bool> ends{false};
  std::thread thread([&] {
    BackgroundThread background;
    background.begin_work();
    made = &background;
    while (!ends) std::this_thread::yield();
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  });
  while (made == nullptr) std::this_thread::yield();
  made.load()->keep_pace(SystemClock().now_ns() + 1000 * kPeriod, kPeriod);
  EXPECT_TRUE(made.load()->is_helped());
  EXPECT_NE(sched_getscheduler(0), SCHED_IDLE);
  ends = true;
  thread.join();
}

}  // namespace
}  // namespace itif
