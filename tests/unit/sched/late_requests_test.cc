// The requests that leave a batch because it makes them late, against all divisions by deadline.
#include "sched/late_requests.h"

#include <random>

#include "policy_fixture.h"

namespace itif::sched {
namespace {

constexpr uint64_t kMs = 1'000'000;

struct RandomBatch {
  std::deque<request::Request> requests;
  std::vector<request::Request*> batch;

  RandomBatch(std::mt19937_64& random, const BatchCost& cost) {
    const size_t count = 1 + random() % 9;
    for (size_t i = 0; i < count; ++i) {
      request::Request& r = requests.emplace_back();
      r.num_tokens = 1 + static_cast<uint32_t>(random() % 64);
      const auto alone_ns = static_cast<uint64_t>(cost.batch_ns(r.num_tokens));
      r.deadline_ns = random() % 5 == 0 ? 0 : kMs + alone_ns + random() % (20 * kMs);
      batch.push_back(&r);
    }
  }
};

// Returns true if a batch of `requests` that starts at start_ns makes none of them late. Adds its
// time to start_ns.
bool in_time(const std::vector<request::Request*>& requests, const BatchCost& cost,
             uint64_t& start_ns) {
  uint32_t tokens = 0;
  for (const request::Request* r : requests) tokens += r->num_tokens;
  start_ns += static_cast<uint64_t>(cost.batch_ns(tokens));
  return std::ranges::all_of(requests, [&](const request::Request* r) {
    return r->deadline_ns == 0 || r->deadline_ns >= start_ns;
  });
}

TEST(LateRequests, TheEarliestLeaveUntilTheRestIsInTime) {
  const LinearCost cost{0.5 * kMs, 0.05 * kMs};
  std::mt19937_64 random(1);
  LateRequests late(16);
  int num_divided = 0, num_left = 0;
  for (int round = 0; round < 5000; ++round) {
    RandomBatch drawn(random, cost);
    const ExecutorState state{.now_ns = kMs, .start_ns = kMs, .costs = {.expected = cost}};
    const bool others_wait = round % 2 == 0;
    const auto [found, runs_next] = late.find(
        drawn.batch, state, others_wait ? OtherRequests::kMayBeLate : OtherRequests::kNone);
    const std::vector<request::Request*> leaving(found.begin(), found.end());
    std::vector<request::Request*> rest = drawn.batch;
    std::erase_if(rest, [&](request::Request* r) { return std::ranges::count(leaving, r) > 0; });
    uint64_t end_ns = kMs;
    ASSERT_FALSE(rest.empty());
    ASSERT_TRUE(in_time(rest, cost, end_ns));

    // By deadline: the first i run first, or leave.
    std::vector<request::Request*> ordered = drawn.batch;
    std::ranges::sort(ordered, {}, [](const request::Request* r) { return r->deadline_ns - 1; });
    bool may_divide = false;
    size_t fewest = 0;
    for (size_t i = ordered.size(); i-- > 0;) {
      const auto middle = ordered.begin() + static_cast<std::ptrdiff_t>(i);
      const std::vector<request::Request*> head(ordered.begin(), middle),
          tail(middle, ordered.end());
      uint64_t start_ns = kMs;
      if (in_time(tail, cost, start_ns)) fewest = i;
      start_ns = kMs;
      may_divide |= in_time(head, cost, start_ns) && in_time(tail, cost, start_ns) && i > 0;
    }
    const bool all_in_time = fewest == 0;
    if (all_in_time) {
      EXPECT_TRUE(leaving.empty());
    } else if (may_divide && !others_wait) {
      ++num_divided;
      EXPECT_TRUE(runs_next);
      EXPECT_TRUE(in_time(leaving, cost, end_ns));  // in a batch after the rest
    } else {
      ++num_left;
      EXPECT_FALSE(runs_next);
      EXPECT_EQ(leaving.size(), fewest);
    }
  }
  EXPECT_GT(num_divided, 100);
  EXPECT_GT(num_left, 100);
}

TEST(LateRequests, WithoutDeadlinesOrCostsNoneLeaves) {
  const LinearCost cost{0, 1.0 * kMs};
  std::mt19937_64 random(2);
  LateRequests late(16);
  RandomBatch drawn(random, cost);
  for (const OtherRequests others :
       {OtherRequests::kNone, OtherRequests::kCanWait, OtherRequests::kMayBeLate}) {
    EXPECT_TRUE(late.find(drawn.batch, {.now_ns = kMs}, others).requests.empty());
    RandomBatch without(random, cost);
    for (request::Request* r : without.batch) r->deadline_ns = 0;
    const ExecutorState state{.now_ns = kMs, .costs = {.expected = cost}};
    EXPECT_TRUE(late.find(without.batch, state, others).requests.empty());
  }
}

// Eight requests of 8 tokens that start after 1 ms. One has a deadline; most others can wait.
struct OneInAHurry {
  explicit OneInAHurry(uint64_t deadline_ns) {
    for (request::Request& r : requests) {
      r.num_tokens = 8;
      batch.push_back(&r);
    }
    hurried.deadline_ns = deadline_ns;
  }
  LateRequests::Leaving find(const LinearCost& cost) {
    return late.find(batch, {.now_ns = kMs, .start_ns = kMs, .costs = {.expected = cost}},
                     OtherRequests::kCanWait);
  }

  std::deque<request::Request> requests{8};
  std::vector<request::Request*> batch;
  request::Request& hurried = requests[5];
  LateRequests late{8};
};

// The batch takes 0.5 + 6.4 ms: two batches take a fourteenth more. Three requests take 2.9 ms and
// four take 3.7 ms.
TEST(LateRequests, RunFirstWithAsManyOthersAsFit) {
  OneInAHurry drawn(4 * kMs);
  const auto [leaving, runs_next] = drawn.find(LinearCost{0.5 * kMs, 0.1 * kMs});
  EXPECT_TRUE(runs_next);
  EXPECT_EQ(leaving.size(), 5u);
  EXPECT_EQ(std::ranges::count(leaving, &drawn.hurried), 0);
}

// Batches of any size take about 10 ms, so two of them take twice as long.
TEST(LateRequests, LeaveIfTwoBatchesTakeTooLong) {
  OneInAHurry drawn(kMs + 10 * kMs + 400'000);
  const auto [leaving, runs_next] = drawn.find(LinearCost{10.0 * kMs, 0.01 * kMs});
  EXPECT_FALSE(runs_next);
  ASSERT_EQ(leaving.size(), 1u);
  EXPECT_EQ(leaving[0], &drawn.hurried);
}

}  // namespace
}  // namespace itif::sched
