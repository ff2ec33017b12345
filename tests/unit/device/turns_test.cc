// Streams that compute in turns. "Computing" advances a virtual clock while a stream has the turn.
#include "device/host/turns.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <limits>
#include <thread>

namespace itif::device {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kLaunchNs = kMs / 5;

class TurnsTest : public testing::Test {
 protected:
  // Runs a launch of `ns`: no other stream may compute meanwhile.
  void launch(TurnTaker& taker, uint64_t ns = kLaunchNs) {
    taker.begin();
    EXPECT_EQ(num_computing_.fetch_add(1), 0);
    clock_.advance_ns(ns);
    EXPECT_EQ(num_computing_.fetch_sub(1), 1);
    taker.pass();
  }

  VirtualClock clock_;
  std::shared_ptr<std::atomic<bool>> beside_loads_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<Turns> turns_ = std::make_shared<Turns>(clock_, beside_loads_);
  std::atomic<int> num_computing_{0};
};

// Both always have work. The first has the turn until the second has arrived.
TEST_F(TurnsTest, TimeIsDividedByShare) {
  struct Case {
    uint32_t first, second;
    double part_of_first;
  };
  for (const Case c :
       {Case{50, 50, 0.5}, Case{75, 25, 0.75}, Case{0, 100, 0.5}, Case{10, 90, 0.1}}) {
    TurnTaker first(turns_, c.first), second(turns_, c.second);
    std::atomic<uint64_t> ns[2] = {0, 0};
    std::atomic<bool> stop{false};
    first.begin();
    std::thread other([&] {
      while (!stop.load()) {
        launch(second);
        ns[1] += kLaunchNs;
      }
      second.end();
    });
    while (!first.is_wanted()) std::this_thread::yield();
    while (ns[0] + ns[1] < 2000 * kMs) {
      launch(first);
      ns[0] += kLaunchNs;
    }
    stop.store(true);
    first.end();
    other.join();
    const double part = static_cast<double>(ns[0]) / static_cast<double>(ns[0] + ns[1]);
    EXPECT_NEAR(part, c.part_of_first, 0.06) << c.first << " : " << c.second;
    // Each waits while the other computes.
    EXPECT_NEAR(static_cast<double>(first.waited_ns()) / static_cast<double>(ns[1]), 1, 0.05);
    EXPECT_NEAR(static_cast<double>(second.waited_ns()) / static_cast<double>(ns[0]), 1, 0.05);
  }
}

TEST_F(TurnsTest, AStreamAloneKeepsTheTurn) {
  TurnTaker alone(turns_, 1);
  const uint64_t start_ns = clock_.now_ns();
  for (int i = 0; i < 1000; ++i) {
    launch(alone);
    if (i % 7 == 0) alone.end();
  }
  EXPECT_EQ(clock_.now_ns() - start_ns, 1000 * kLaunchNs);
  EXPECT_EQ(alone.waited_ns(), 0u);
  clock_.advance_ns(TurnTaker::kCompanyNs + 1);
  EXPECT_FALSE(alone.has_company());
}

// A stream that uses a fifth of the time, and has half, waits for a launch of the other at most,
// however much work that one has.
TEST_F(TurnsTest, AStreamWithinItsShareDoesNotWaitForWholeBatches) {
  TurnTaker busy(turns_, 50), calm(turns_, 50);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> asked_ns{0};
  uint64_t longest_ns = 0;
  busy.begin();
  std::thread other([&] {
    for (int batch = 0; batch < 200; ++batch) {
      asked_ns.store(clock_.now_ns());
      for (int i = 0; i < 10; ++i) {
        calm.begin();
        if (i == 0) longest_ns = std::max(longest_ns, clock_.now_ns() - asked_ns.load());
        clock_.advance_ns(kLaunchNs);
        calm.pass();
      }
      calm.end();
      const uint64_t until_ns = clock_.now_ns() + 40 * kLaunchNs;
      while (clock_.now_ns() < until_ns) std::this_thread::yield();
    }
    stop.store(true);
  });
  // Leaves time between launches, so that the other thread can ask for the turn.
  while (!stop.load()) {
    launch(busy);
    std::this_thread::yield();
  }
  busy.end();
  other.join();
  // Threads of the system are not in lockstep with the virtual clock.
  EXPECT_LE(longest_ns, 20 * kLaunchNs);
}

// After a long time without work, a stream is at most kCreditNs behind: with half of the time it
// has the turn for 500 ms alone.
TEST_F(TurnsTest, ALongPauseGivesLimitedCredit) {
  TurnTaker busy(turns_, 50), late(turns_, 50);
  for (int i = 0; i < 50'000; ++i) launch(busy);
  std::atomic<bool> waits{false};
  uint64_t first_turn_ns = 0;
  std::thread other([&] {
    late.begin();
    const uint64_t from_ns = clock_.now_ns();
    do {
      clock_.advance_ns(kLaunchNs);
      const uint64_t before_ns = clock_.now_ns();
      first_turn_ns = before_ns - from_ns;
      late.pass();  // returns at once until the busy stream is behind
      if (clock_.now_ns() != before_ns) break;
    } while (first_turn_ns < 10'000 * kMs);
    late.end();
    waits.store(true);
  });
  // The clock stands until the late stream waits: its credit is counted from then on.
  while (!busy.is_wanted()) std::this_thread::yield();
  while (!waits.load()) launch(busy);
  busy.end();
  other.join();
  EXPECT_GE(first_turn_ns, 480 * kMs);
  EXPECT_LE(first_turn_ns, 530 * kMs);
}

TEST_F(TurnsTest, PartsTakeAFifthOfAMillisecond) {
  TurnTaker taker(turns_, 50), other(turns_, 50);
  TurnTaker::Pace pace;
  launch(other);
  other.end();
  launch(taker);
  EXPECT_TRUE(taker.has_company());
  EXPECT_EQ(taker.part_units(pace), std::numeric_limits<double>::infinity());  // unknown yet
  for (int i = 0; i < 30; ++i) {
    taker.begin_part();
    clock_.advance_ns(2 * kMs);
    taker.end_part(pace, 512);
  }
  EXPECT_NEAR(taker.part_units(pace), 51.2, 1e-6);
  clock_.advance_ns(TurnTaker::kCompanyNs);
  EXPECT_EQ(taker.part_units(pace), std::numeric_limits<double>::infinity());  // alone
}

// A group's thread that a request wakes asks for a turn only when it has a CPU. Both threads are on
// one CPU here: the other one runs only if the first yields. Beside loads, and without company, it
// yields only for a request: the other thread may be a loader.
TEST_F(TurnsTest, ALongTurnYieldsTheCpuToAThreadThatARequestWakes) {
  constexpr int kParts = 200;
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  bool has_request = false;
  TurnTaker computing(turns_, 50, [] { return true; });  // its own requests do not count
  TurnTaker company(turns_, 50, [&] { return has_request; }), without(turns_, 50);
  std::atomic<uint64_t> runs{0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load()) runs.fetch_add(1);
  });
  while (runs.load() == 0) sched_yield();
  struct Case {
    bool awaited, has_company, beside_loads, yields;
  };
  for (const Case& c : {Case{true, false, false, true}, Case{false, false, false, false},
                        Case{true, true, true, true}, Case{false, true, true, false},
                        Case{false, true, false, true}, Case{true, true, false, true}}) {
    has_request = c.awaited;
    beside_loads_->store(c.beside_loads);
    int num_runs = 0;
    for (int i = 0; i < kParts; ++i) {
      if (c.has_company) {
        company.begin();
        company.end();
      }
      const uint64_t before = runs.load();
      launch(computing, TurnTaker::kPartNs);
      computing.end();
      if (runs.load() != before) ++num_runs;
    }
    if (c.yields)
      EXPECT_GT(num_runs, kParts / 4);
    else
      EXPECT_LT(num_runs, kParts / 8);
    clock_.advance_ns(TurnTaker::kCompanyNs);
  }
  stop.store(true);
  other.join();
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

// A background stream that always has work passes the turn to a foreground stream after each
// launch, also after it has computed far less than its share.
TEST_F(TurnsTest, TheBackgroundYields) {
  TurnTaker measuring(turns_, 99), serving(turns_, 1);
  measuring.set_background(true);
  std::atomic<bool> stop{false};
  uint64_t served_ns = 0, longest_ns = 0;
  measuring.begin();
  std::thread other([&] {
    for (int i = 0; i < 500; ++i) {
      const uint64_t asked_ns = clock_.now_ns();
      serving.begin();
      longest_ns = std::max(longest_ns, clock_.now_ns() - asked_ns);
      for (int part = 0; part < 20; ++part) {
        clock_.advance_ns(kLaunchNs);
        serving.pass();
      }
      serving.end();
      served_ns += 20 * kLaunchNs;
    }
    stop.store(true);
  });
  while (!measuring.is_wanted()) std::this_thread::yield();
  while (!stop.load()) {
    launch(measuring);
    std::this_thread::yield();
  }
  measuring.end();
  other.join();
  EXPECT_EQ(serving.foreground_ns(), served_ns);
  EXPECT_LE(longest_ns, 20 * kLaunchNs) << "threads are not in lockstep with the virtual clock";
}

// One stream of each kind always has work.
TEST_F(TurnsTest, TheBackgroundDoesNotStarve) {
  TurnTaker measuring(turns_, 1), serving(turns_, 99);
  measuring.set_background(true);
  std::atomic<uint64_t> measured_ns{0};
  std::atomic<bool> stop{false};
  serving.begin();
  std::thread other([&] {
    while (!stop.load()) {
      launch(measuring);
      measured_ns += kLaunchNs;
    }
    measuring.end();
  });
  while (!serving.is_wanted()) std::this_thread::yield();
  const uint64_t from_ns = clock_.now_ns();
  while (clock_.now_ns() < from_ns + 2000 * kMs) launch(serving);
  stop.store(true);
  serving.end();
  other.join();
  // A launch of 0.2 ms after each 10 ms.
  EXPECT_NEAR(static_cast<double>(measured_ns.load()) / kMs, 2000 * 0.2 / 10.2, 4);
}

// Its waits and its time do not count in the foreground.
TEST_F(TurnsTest, TheBackgroundSpendsNoCredit) {
  TurnTaker stream(turns_, 50), other(turns_, 50);
  launch(other);
  other.end();
  stream.set_background(true);
  TurnTaker::Pace pace{.ns_per_unit = 1};
  clock_.advance_ns(TurnTaker::kCompanyNs);
  launch(stream, 3000 * kMs);
  EXPECT_TRUE(stream.has_company()) << "a stream that may wake";
  EXPECT_LT(stream.part_units(pace), std::numeric_limits<double>::infinity());
  stream.set_background(false);
  std::thread thread([&] {
    launch(other);
    other.end();
  });
  stream.begin();
  while (!stream.is_wanted()) std::this_thread::yield();
  stream.pass();  // keeps the turn: it has used no time of the foreground
  EXPECT_TRUE(stream.is_wanted());
  stream.end();
  thread.join();
}

}  // namespace
}  // namespace itif::device
