// Under overload policies chose the requests that were nearly too late, each of which could have
// been met alone, and the full batch answered all of them late.
#include <map>

#include "base/random.h"
#include "policy_fixture.h"

namespace itif::sched {
namespace {

class LateBatchTest : public PolicyFixture, public testing::WithParamInterface<const char*> {
 protected:
  // Batches have up to ten requests of 32 tokens, which take 32 ms. One alone takes 3.2 ms.
  void SetUp() override {
    const PolicyOptions options = {.limits = {.max_tokens = 1024, .max_requests = 10}};
    choice.reserve(options);
    make(GetParam(), options);
  }
  void push_requests(int count, uint64_t deadline_ns) {
    for (int i = 0; i < count; ++i) push({.deadline_ns = deadline_ns});
  }
};

TEST_P(LateBatchTest, LeavesOutRequestsThatTheBatchWouldMakeLate) {
  push_requests(5, 10 * kMs);
  push_requests(15, 100 * kMs);
  choose(0);
  EXPECT_EQ(choice.batch.size(), 10u);
  for (const request::Request* r : choice.batch) EXPECT_EQ(r->deadline_ns, 100 * kMs);
  EXPECT_EQ(choice.refused.size(), 5u);  // cannot be met after this batch either
  choose(32 * kMs);
  EXPECT_EQ(choice.batch.size(), 5u);
  EXPECT_EQ(policy->queue().num_requests(), 0u);
}

TEST_P(LateBatchTest, TakesAsManyAsAreInTimeIfThereAreNoOthers) {
  push_requests(20, 10 * kMs);
  choose(0);
  EXPECT_EQ(choice.batch.size(), 3u);  // 9.6 ms
  EXPECT_EQ(choice.refused.size(), 17u);
}

// Three requests take 9.6 ms, all eight 25.6 ms.
TEST_P(LateBatchTest, ThoseInAHurryRunFirstIfTheOthersCanWait) {
  push_requests(5, 30 * kMs);
  push_requests(3, 10 * kMs);
  choose(0);
  ASSERT_EQ(choice.batch.size(), 3u);
  for (const request::Request* r : choice.batch) EXPECT_EQ(r->deadline_ns, 10 * kMs);
  EXPECT_TRUE(choice.refused.empty());
  choose(10 * kMs);
  EXPECT_EQ(choice.batch.size(), 5u);
}

TEST_P(LateBatchTest, ASmallBatchTakesRequestsThatAFullOneWouldMakeLate) {
  push_requests(2, 10 * kMs);
  push_requests(1, 100 * kMs);
  choose(0);
  EXPECT_EQ(choice.batch.size(), 3u);
}

// Requests without a deadline can wait. Every second batch is for all, so that they
// do not wait for a stream of short deadlines.
TEST_P(LateBatchTest, ThoseInAHurryRunFirstInEverySecondBatchIfMostHaveNoDeadline) {
  push_requests(2, 10 * kMs);
  push_requests(30, 0);
  choose(0);
  EXPECT_EQ(choice.batch.size(), 3u);  // 9.6 ms, with one of the others
  EXPECT_EQ(std::ranges::count(choice.batch, 10 * kMs, &request::Request::deadline_ns), 2);
  EXPECT_TRUE(choice.refused.empty());
  push_requests(2, 20 * kMs);
  choose(10 * kMs);
  EXPECT_EQ(choice.batch.size(), 10u);
  EXPECT_EQ(choice.refused.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, LateBatchTest,
                         testing::Values("fair", "fcfs", "lcfs", "sjf", "edf", "das",
                                         "slotted_das"),
                         [](const auto& param) { return std::string(param.param); });

// Rows of requests that left used to keep their gaps, and every row costs as much as a full one.
class LateRowsTest : public PolicyFixture, public testing::WithParamInterface<const char*> {
 protected:
  static constexpr BatchRows kRows = {.number = 4, .tokens = 32};

  void SetUp() override {
    const PolicyOptions options = {.limits = {.max_tokens = 128, .max_requests = 64}};
    choice.reserve(options);
    make(GetParam(), options);
  }
  void choose_rows() {
    policy->choose({.start_ns = 0, .costs = costs(), .rows = kRows}, choice);
    ASSERT_TRUE(choice.has_rows);
  }
  uint32_t num_rows() const { return choice.batch.empty() ? 0 : choice.batch.back()->row + 1; }
  // Checks that no row has more tokens than fit, and no slot more than its size.
  void expect_valid_rows() const {
    std::map<uint32_t, uint32_t> rows, slots;
    for (const request::Request* r : choice.batch) {
      EXPECT_LE(rows[r->row] += r->num_tokens, kRows.tokens);
      if (choice.slot_tokens == 0) continue;
      EXPECT_LE(slots[r->row_slot] += r->num_tokens, choice.slot_tokens);
      EXPECT_EQ(r->row_slot / (kRows.tokens / choice.slot_tokens), r->row);
    }
    EXPECT_TRUE(std::ranges::is_sorted(choice.batch, {}, &request::Request::row));
    EXPECT_LE(num_rows(), kRows.number);
  }
};

// 12 requests of 8 tokens take 9.6 ms. Every second one has less time: 6 of them leave 6, which
// take 4.8 ms, and fill two rows of four instead of three rows of two.
TEST_P(LateRowsTest, TheOthersMoveTogether) {
  for (int i = 0; i < 6; ++i) {
    push({.tokens = 8, .deadline_ns = 5 * kMs});
    push({.tokens = 8, .deadline_ns = 4 * kMs});
  }
  choose_rows();
  ASSERT_EQ(choice.batch.size(), 6u);
  for (const request::Request* r : choice.batch) EXPECT_EQ(r->deadline_ns, 5 * kMs);
  EXPECT_EQ(num_rows(), 2u);
  expect_valid_rows();
}

TEST_P(LateRowsTest, RandomBatches) {
  Random random(7);
  size_t left = 0;
  for (int round = 0; round < 2000; ++round) {
    while (policy->pop() != nullptr) {
    }
    const uint64_t count = 1 + random.below(40);
    for (uint64_t i = 0; i < count; ++i)
      push({.tokens = 1 + static_cast<uint32_t>(random.below(round % 2 == 0 ? 32 : 9)),
            .deadline_ns = (2 + random.below(16)) * kMs});
    choose_rows();
    expect_valid_rows();
    left += choice.refused.size();
    uint32_t row = 0, tokens = 0, next_fit = choice.batch.empty() ? 0 : 1;
    for (const request::Request* r : choice.batch) {
      EXPECT_GE(r->deadline_ns, static_cast<uint64_t>(expected.batch_ns(batch_tokens())));
      next_fit += tokens + r->num_tokens > kRows.tokens;
      tokens = tokens + r->num_tokens > kRows.tokens ? r->num_tokens : tokens + r->num_tokens;
      EXPECT_LE(r->row, row + 1);  // none is empty
      row = r->row;
    }
    if (choice.slot_tokens == 0) {
      EXPECT_LE(num_rows(), next_fit) << round;
    }
  }
  EXPECT_GT(left, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Das, LateRowsTest, testing::Values("das", "slotted_das", "das:fair"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, ':', '_');
                           return name;
                         });

// A tenant that gets requests back keeps its share: over many batches, two tenants of equal weight
// get equally many requests, although the batch makes some of one's requests late. Requests of 8
// tokens cost 32, since a batch has at most 10.
class FairChargeTest : public PolicyFixture, public testing::WithParamInterface<uint32_t> {};

TEST_P(FairChargeTest, OnlyRequestsThatRunAreCharged) {
  const PolicyOptions options = {.limits = {.max_tokens = 320, .max_requests = 10}};
  choice.reserve(options);
  make("fair", options);
  const uint64_t request_ns = GetParam() * kMs / 10;
  uint64_t now_ns = 0;
  size_t ran[2] = {};
  for (uint32_t batch = 0; batch < 100; ++batch) {
    for (const uint32_t slot : {0u, 1u})
      for (int i = 0; policy->queue().of_tenant(slot).num_requests < 20; ++i) {
        const bool hurries = slot == 1 && i % 3 == 0;
        push({.slot = slot,
              .tokens = GetParam(),
              .at_ns = now_ns,
              .deadline_ns = now_ns + (hurries ? 28 + batch % 19 : 310) * request_ns});
      }
    choose(now_ns);
    for (const uint32_t slot : {0u, 1u}) ran[slot] += count(slot);
    now_ns += static_cast<uint64_t>(expected.batch_ns(batch_tokens()));
    for (const request::Request* r : choice.batch)
      ASSERT_TRUE(r->deadline_ns == 0 || r->deadline_ns >= now_ns);
  }
  EXPECT_NEAR(static_cast<double>(ran[0]), static_cast<double>(ran[1]), 2);
}

INSTANTIATE_TEST_SUITE_P(Lengths, FairChargeTest, testing::Values(32, 8));

}  // namespace
}  // namespace itif::sched
