#include "serving/loader_threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <future>
#include <latch>
#include <stdexcept>
#include <vector>

namespace itif::serving {
namespace {

TEST(LoaderThreads, PostedWorkRunsAtTheSameTime) {
  std::latch both(2);
  {
    LoaderThreads loaders(2, {});
    EXPECT_EQ(loaders.count(), 2u);
    for (int i = 0; i < 2; ++i) loaders.post([&] { both.arrive_and_wait(); });
  }
  EXPECT_TRUE(both.try_wait()) << "the destructor finishes what is posted";
}

TEST(LoaderThreads, WorkThatIsWaitedForNeedsNoFreeThread) {
  std::promise<void> ends;
  LoaderThreads loaders(1, {});
  loaders.post([&, ended = ends.get_future().share()] { ended.wait(); });
  bool has_run = false;
  loaders.run([&] { has_run = true; });
  EXPECT_TRUE(has_run);
  ends.set_value();
}

TEST(LoaderThreads, RunThrowsWhatTheWorkThrows) {
  LoaderThreads loaders(1, {});
  EXPECT_THROW(loaders.run([] { throw std::runtime_error("no memory"); }), std::runtime_error);
  int policy = -1;
  loaders.run([&] { policy = sched_getscheduler(0); });
  EXPECT_EQ(policy, SCHED_IDLE);
  EXPECT_NE(sched_getscheduler(0), SCHED_IDLE);
}

TEST(LoaderThreads, TellWhetherAnyWorks) {
  std::vector<bool> told;
  {
    LoaderThreads loaders(2, {}, [&](bool busy) { told.push_back(busy); });
    EXPECT_TRUE(told.empty());
    std::latch both(2);
    for (int i = 0; i < 2; ++i) loaders.post([&] { both.arrive_and_wait(); });
  }
  EXPECT_EQ(told, (std::vector<bool>{true, false})) << "the two worked at the same time";
}

}  // namespace
}  // namespace itif::serving
