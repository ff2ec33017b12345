// Latency objectives of tenants: those that are set, and those implied by recent traffic.
#include "sched/objectives.h"

#include <gtest/gtest.h>

#include <deque>

namespace itif::sched {
namespace {

constexpr uint64_t kObjectiveMs = 1'000'000;
constexpr uint64_t kSecond = 1000 * kObjectiveMs;
constexpr uint64_t kAloneNs = 7 * kObjectiveMs;

class ObjectivesTest : public testing::Test {
 protected:
  void push(uint32_t slot, uint64_t now_ns, uint64_t slo_ns = 0) {
    request::Request& r = requests.emplace_back();
    r.slot = slot;
    r.num_tokens = 10;
    r.settings.slo_ns = slo_ns;
    r.settings.weight = slot == 2 ? 8 : 1;
    EXPECT_TRUE(queue.push(&r));
    objectives.pushed(r, now_ns, alone_ns);
  }
  // Runs 10 s in turns of 1 ms. In each turn waiting[slot] requests are queued and then served.
  // Slot 0 sends only every `period` turns.
  Objectives::Tightest traffic(std::initializer_list<uint32_t> waiting, uint64_t period = 1,
                               uint64_t slo_of_first_ns = 0, bool isolate = true) {
    Objectives::Tightest tightest;
    for (uint64_t end_ns = now_ns + 10 * kSecond; now_ns < end_ns; now_ns += kObjectiveMs) {
      uint32_t slot = 0;
      for (const uint32_t count : waiting) {
        for (uint32_t i = 0; i < count && (slot != 0 || now_ns / kObjectiveMs % period == 0); ++i)
          push(slot, now_ns, slot == 0 ? slo_of_first_ns : 0);
        ++slot;
      }
      tightest = objectives.set(queue, now_ns, isolate);
      while (queue.num_requests() > 0) queue.pop(queue.active_slots().front());
    }
    return tightest;
  }
  uint64_t owed(uint32_t slot) { return objectives.of_tenant_ns(slot); }

  uint64_t now_ns = kObjectiveMs;
  uint64_t alone_ns = kAloneNs;
  std::deque<request::Request> requests;
  GroupQueue queue{{.max_requests = 1000, .max_tenant_requests = 1000, .max_slots = 4}};
  Objectives objectives{4};
};

TEST_F(ObjectivesTest, ReturnsTheTightestActiveObjective) {
  EXPECT_EQ(objectives.set(queue, 0, true).slo_ns, 0u);
  push(3, 1);
  EXPECT_EQ(objectives.set(queue, 1, false).slo_ns, 0u);
  push(2, 5, 20);
  push(1, 9 * kSecond, 50);
  EXPECT_EQ(objectives.set(queue, 9 * kSecond, false).slo_ns, 20u);
  EXPECT_EQ(owed(1), 50u);
  EXPECT_EQ(owed(2), 20u);
  EXPECT_EQ(owed(3), 0u);
  queue.pop(2);  // still counts: its next request may arrive while a batch runs
  EXPECT_EQ(objectives.set(queue, 9 * kSecond, false).slo_ns, 20u);
  EXPECT_EQ(objectives.set(queue, 10 * kSecond + 5, false).slo_ns, 50u);
  EXPECT_EQ(owed(2), 0u);
}

TEST_F(ObjectivesTest, ALightTenantAmongAFloodGetsFourTimesItsOwnTime) {
  const Objectives::Tightest tightest = traffic({1, 20}, 50);
  EXPECT_EQ(tightest.slo_ns, 0u);
  EXPECT_EQ(tightest.batch_ns, 11'200'000u);  // two fifths of the objective
  EXPECT_EQ(tightest.efficient_ns, 8 * kAloneNs);
  EXPECT_EQ(owed(0), 4 * kAloneNs);
  EXPECT_EQ(owed(1), 0u) << "a flooding tenant gets no objective";
}

// Shorter batches of a small model would be mostly fixed cost.
TEST_F(ObjectivesTest, AnImpliedObjectiveIsAtLeastTenMilliseconds) {
  alone_ns = kObjectiveMs / 10;
  EXPECT_EQ(traffic({1, 20}, 50).batch_ns, 4 * kObjectiveMs);
  EXPECT_EQ(owed(0), 10 * kObjectiveMs);
}

TEST_F(ObjectivesTest, AnUnknownTimeAloneImpliesNoObjective) {
  alone_ns = 0;
  EXPECT_EQ(traffic({1, 20}, 50).batch_ns, 0u);
  EXPECT_EQ(owed(0), 0u);
}

TEST_F(ObjectivesTest, WithoutIsolationNoObjectiveIsImplied) {
  EXPECT_EQ(traffic({1, 20}, 50, 0, false).batch_ns, 0u);
  EXPECT_EQ(owed(0), 0u);
}

TEST_F(ObjectivesTest, SimilarLoadsImplyNoObjective) {
  EXPECT_EQ(traffic({4, 4, 32, 2}).batch_ns, 0u);
}

TEST_F(ObjectivesTest, ALoneTenantImpliesNoObjective) {
  EXPECT_EQ(traffic({30}).batch_ns, 0u);
}

// Slot 2 weighs 8 of 10, so 8 of 10 requests are its share. The others send their shares, too.
TEST_F(ObjectivesTest, ATenantMaySendInProportionToItsWeight) {
  EXPECT_EQ(traffic({1, 1, 8}).batch_ns, 0u);
  EXPECT_EQ(traffic({1, 8, 8}, 10).batch_ns, 11'200'000u);
}

TEST_F(ObjectivesTest, AConfiguredObjectiveIsKept) {
  const Objectives::Tightest tightest = traffic({1, 20}, 50, 700 * kObjectiveMs);
  EXPECT_EQ(tightest.slo_ns, 700 * kObjectiveMs);
  EXPECT_EQ(tightest.batch_ns, 0u);
  EXPECT_EQ(owed(0), 700 * kObjectiveMs);
}

TEST_F(ObjectivesTest, AFloodThatEndsIsForgotten) {
  EXPECT_NE(traffic({1, 20}, 50).batch_ns, 0u);
  for (int i = 0; i < 4; ++i) traffic({1, 1});
  EXPECT_EQ(traffic({1, 1}).batch_ns, 0u);
}

// Two fifths of 17 ms are less than the 7 ms of a request alone.
TEST_F(ObjectivesTest, AnUnreachableObjectiveAllowsBatchesOfTwiceARequestsTime) {
  push(1, 1, 18 * kObjectiveMs);
  EXPECT_EQ(objectives.set(queue, 1, true).least_batch_ns, 0u);
  push(2, 1, 17 * kObjectiveMs);
  EXPECT_EQ(objectives.set(queue, 1, true).least_batch_ns, 14 * kObjectiveMs);
  EXPECT_EQ(objectives.set(queue, 1, true).slo_ns, 17 * kObjectiveMs);
}

}  // namespace
}  // namespace itif::sched
