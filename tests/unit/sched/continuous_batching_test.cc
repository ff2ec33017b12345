// Requests that join a running batch: their order, their places and their deadlines.
#include "policy_fixture.h"

namespace itif::sched {
namespace {

using Requests = std::vector<request::Request*>;

class ContinuousBatchingTest : public PolicyFixture {
 protected:
  struct Places final : Capacity {
    uint32_t left = 0;
    bool reserve(const request::Request&) noexcept override { return left > 0 && left-- > 0; }
  };

  ContinuousBatchingTest() {
    make("fcfs", {.limits = {.max_tokens = 1024, .max_requests = 256},
                  .queue = {.max_requests = 8, .max_tenant_requests = 4, .max_slots = 4},
                  .continuous = true});
  }
  const Requests& choose_with(uint32_t num_places) {
    Places places;
    places.left = num_places;
    policy->choose({.capacity = &places}, choice);
    return choice.batch;
  }
};

TEST_F(ContinuousBatchingTest, RefusesOnlyPassedDeadlines) {
  request::Request& passed = push({.slot = 0, .at_ns = 1, .deadline_ns = 9 * kMs});
  request::Request& objective = push({.slot = 1, .slo_ns = kMs, .at_ns = 2});
  request::Request& close = push({.slot = 0, .at_ns = 3, .deadline_ns = 9 * kMs + 1});
  choose(9 * kMs);
  EXPECT_EQ(choice.batch, (Requests{&objective, &close}));
  ASSERT_EQ(choice.refused.size(), 1u);
  EXPECT_EQ(choice.refused[0].request, &passed);
  EXPECT_EQ(choice.refused[0].why, DeadlineMiss::kPassed);
  EXPECT_EQ(choice.slo_ns, 0u);
}

TEST_F(ContinuousBatchingTest, ARequestWithoutRoomKeepsItsPlace) {
  request::Request& first = push({.slot = 0, .at_ns = 2});
  request::Request& second = push({.slot = 0, .at_ns = 3});
  request::Request& third = push({.slot = 1, .at_ns = 4});
  EXPECT_EQ(choose_with(1), Requests{&first});
  EXPECT_EQ(choose_with(0), Requests{});
  request::Request& later = push({.slot = 2, .at_ns = 1});
  EXPECT_EQ(policy->num_waiting(), 3u);
  EXPECT_EQ(choose_with(3), (Requests{&second, &third}));
  EXPECT_EQ(choose_with(1), Requests{&later});
  EXPECT_EQ(policy->num_waiting(), 0u);
}

TEST_F(ContinuousBatchingTest, ADeadlineMayPassInAKeptPlace) {
  request::Request& first = push({.slot = 0, .at_ns = 1, .deadline_ns = 5});
  request::Request& second = push({.slot = 0, .at_ns = 2});
  EXPECT_EQ(choose_with(0), Requests{});
  choose(5);
  EXPECT_EQ(choice.batch, Requests{&second});
  ASSERT_EQ(choice.refused.size(), 1u);
  EXPECT_EQ(choice.refused[0].request, &first);
}

TEST_F(ContinuousBatchingTest, PopReturnsEveryWaitingRequest) {
  request::Request& first = push({.slot = 0, .at_ns = 1});
  request::Request& second = push({.slot = 0, .at_ns = 2});
  EXPECT_EQ(choose_with(0), Requests{});
  request::Request& third = push({.slot = 1, .at_ns = 3});
  EXPECT_EQ(policy->pop(), &first);
  EXPECT_EQ(policy->pop(), &second);
  EXPECT_EQ(policy->pop(), &third);
  EXPECT_EQ(policy->pop(), nullptr);
}

}  // namespace
}  // namespace itif::sched
