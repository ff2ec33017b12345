#include "serving/watchdog.h"

#include <gtest/gtest.h>

namespace itif::serving {
namespace {

struct WatchdogTest : ::testing::Test {
  VirtualClock clock;
  std::optional<uint64_t> control = 0, worker = 0;
  Watchdog watchdog{
      clock,
      {{"control", [this] { return control; }}, {"worker 0", [this] { return worker; }}},
      1'000'000'000};
};

TEST_F(WatchdogTest, EveryPartMustMakeProgress) {
  EXPECT_FALSE(watchdog.all_progress() && watchdog.all_progress()) << "none has";
  ++*control;
  EXPECT_FALSE(watchdog.all_progress()) << "the worker has not";
  ++*worker;
  EXPECT_TRUE(watchdog.all_progress());
  EXPECT_FALSE(watchdog.all_progress()) << "none has since";
  ++*worker;
  EXPECT_FALSE(watchdog.all_progress()) << "control has not";
  ++*control;
  EXPECT_TRUE(watchdog.all_progress()) << "both have, though not in the same period";
}

TEST_F(WatchdogTest, APartThatDoesNotRunIsNotWaitedFor) {
  (void)watchdog.all_progress();
  worker.reset();
  ++*control;
  EXPECT_TRUE(watchdog.all_progress());
  ++*control;
  EXPECT_TRUE(watchdog.all_progress());
  worker = 7;
  ++*control;
  EXPECT_TRUE(watchdog.all_progress()) << "it runs again";
  ++*control;
  EXPECT_FALSE(watchdog.all_progress()) << "it has stopped to turn";
}

}  // namespace
}  // namespace itif::serving
