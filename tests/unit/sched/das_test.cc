// das and slotted_das: examples worked by hand from the paper's text, and random waiting sets
// against a plain reference (das_reference.h).
#include <fmt/format.h>

#include <tuple>

#include "base/random.h"
#include "das_reference.h"
#include "policy_fixture.h"

namespace itif::sched {
namespace {

using Requests = std::vector<request::Request*>;

class DasTest : public PolicyFixture {
 protected:
  void make_rows(std::string_view spec, uint32_t num_rows, uint32_t row_tokens,
                 uint32_t max_requests = 64) {
    rows_ = {num_rows, row_tokens};
    const PolicyOptions options{
        .limits = {.max_tokens = num_rows * row_tokens, .max_requests = max_requests},
        .queue = {.max_requests = 4000, .max_tenant_requests = 4000, .max_slots = 8}};
    make(spec, options);
    choice.reserve(options);
  }
  void choose_rows(uint64_t now_ns = 0) {
    policy->choose({.now_ns = now_ns, .rows = rows_}, choice);
  }
  Requests row(uint32_t number) const {
    Requests in_row;
    for (request::Request* r : choice.batch)
      if (r->row == number) in_row.push_back(r);
    return in_row;
  }

  BatchRows rows_;
};

// L = 12, η = q = 1/2. The utility order is B2 A2 D3 C3 F4 E4 G9, and 2 + 2 + 3 + 3 fit: s = 4 and
// p = 2. B and A have the mean utility 1/2, so that requests of up to 4 tokens are deadline-aware:
// F, E, D, C by deadline, of which F and E fit. In the second row s = 2 and p = 1: D, then C.
TEST_F(DasTest, AlgorithmOneByHand) {
  make_rows("das:eta=0.5", 2, 12);
  request::Request& a = push({.tokens = 2, .deadline_ns = 100});
  request::Request& b = push({.tokens = 2, .deadline_ns = 90});
  request::Request& c = push({.tokens = 3, .deadline_ns = 80});
  request::Request& d = push({.tokens = 3, .deadline_ns = 20});
  request::Request& e = push({.tokens = 4, .deadline_ns = 10});
  request::Request& f = push({.tokens = 4, .deadline_ns = 5});
  request::Request& g = push({.tokens = 9, .deadline_ns = 1});
  choose_rows();
  EXPECT_EQ(row(0), (Requests{&b, &a, &f, &e}));
  EXPECT_EQ(row(1), (Requests{&d, &c}));
  EXPECT_EQ(choice.slot_tokens, 0u);
  EXPECT_EQ(policy->pop(), &g);
}

// The same rows. The utility-dominant requests are B2 and A2, and D3: slots of 3 tokens, four in a
// row. F4 and E4 fit none and wait on.
TEST_F(DasTest, AlgorithmTwoByHand) {
  make_rows("slotted_das:eta=0.5", 2, 12);
  request::Request& a = push({.tokens = 2, .deadline_ns = 100});
  request::Request& b = push({.tokens = 2, .deadline_ns = 90});
  request::Request& c = push({.tokens = 3, .deadline_ns = 80});
  request::Request& d = push({.tokens = 3, .deadline_ns = 20});
  request::Request& e = push({.tokens = 4, .deadline_ns = 10});
  request::Request& f = push({.tokens = 4, .deadline_ns = 5});
  request::Request& g = push({.tokens = 9, .deadline_ns = 1});
  choose_rows();
  EXPECT_EQ(row(0), (Requests{&b, &a}));
  EXPECT_EQ(row(1), (Requests{&d, &c}));
  EXPECT_EQ(choice.slot_tokens, 3u);
  EXPECT_EQ(policy->queue().num_requests(), 3u);
  // The next choice finds E and F. Σ = 17 > 12 per row, s = 2, p = 1.
  choose_rows();
  EXPECT_EQ(row(0), (Requests{&f, &e}));
  EXPECT_EQ(row(1), Requests{&g});
  EXPECT_EQ(choice.slot_tokens, 9u);
}

// L = 10. The utility order is A1 C2 B2 D3 E4 F6, and 1 + 2 + 2 + 3 fit: s = 4 and p = 2. A and C
// have the mean 3/4, so that only B (1/2 ≥ 3/8) is deadline-aware. It leaves room, and of the rest
// D3 fits, although E's deadline is earlier.
TEST_F(DasTest, TheRestFillsTheRowByUtility) {
  make_rows("das:eta=0.5", 1, 10);
  request::Request& a = push({.tokens = 1, .deadline_ns = 90});
  request::Request& b = push({.tokens = 2, .deadline_ns = 80});
  request::Request& c = push({.tokens = 2, .deadline_ns = 70});
  request::Request& d = push({.tokens = 3, .deadline_ns = 60});
  push({.tokens = 4, .deadline_ns = 10});
  push({.tokens = 6, .deadline_ns = 20});
  choose_rows();
  EXPECT_EQ(choice.batch, (Requests{&a, &c, &b, &d}));
}

// L = 7. The first three of C2 B2 A2 X3 fit: s = 3. With η = 1/10, p = 1 and q = 9/10, so that only
// requests of 2 tokens are deadline-aware. With η = 1/2, p = 2, and X, whose deadline is the
// earliest, takes A's place. With η = 9/10, or 8/10 by default, p = 3.
TEST_F(DasTest, EtaDividesTheRow) {
  for (const std::string_view spec : {"das:eta=0.1", "das", "das:eta=0.5", "das:eta=0.9"}) {
    make_rows(spec, 1, 7);
    request::Request& a = push({.tokens = 2, .deadline_ns = 90});
    request::Request& b = push({.tokens = 2, .deadline_ns = 80});
    request::Request& c = push({.tokens = 2, .deadline_ns = 70});
    request::Request& x = push({.tokens = 3, .deadline_ns = 1});
    choose_rows();
    const bool half = spec.ends_with(".5");
    EXPECT_EQ(choice.batch, (Requests{&c, &b, half ? &x : &a})) << spec;
  }
}

// Regression: η · s became 0 if it was below 1e-9, so that no row was filled. With p = 1 only
// requests as short as the shortest are deadline-aware.
TEST_F(DasTest, AnEtaNearZeroFillsTheRow) {
  for (const std::string_view spec : {"das:eta=1e-12", "slotted_das:eta=1e-12", "das:eta=4e-320"}) {
    make_rows(spec, 1, 8);
    request::Request& a = push({.tokens = 2, .deadline_ns = 10});
    request::Request& b = push({.tokens = 2, .deadline_ns = 20});
    request::Request& c = push({.tokens = 2, .deadline_ns = 30});
    request::Request& d = push({.tokens = 2, .deadline_ns = 40});
    push({.tokens = 3, .deadline_ns = 5});
    choose_rows();
    EXPECT_EQ(choice.batch, (Requests{&a, &b, &c, &d})) << spec;
  }
}

TEST_F(DasTest, WeightsMultiplyTheUtility) {
  make_rows("das:weighted", 1, 10);
  const auto push_weighted = [&](uint32_t tokens, uint32_t weight) -> request::Request& {
    request::Request& r = requests.emplace_back();
    r.num_tokens = tokens;
    r.settings.weight = weight;
    EXPECT_TRUE(policy->push(&r, 0, costs()));
    return r;
  };
  request::Request& eight = push_weighted(8, 40);  // utility 5
  push_weighted(4, 4);                             // 1
  request::Request& two = push_weighted(2, 1);     // 1/2
  choose_rows();
  EXPECT_EQ(choice.batch, (Requests{&eight, &two}));
}

TEST_F(DasTest, RefusesWhatCannotBeMetAndFillsTheRowWithOthers) {
  make_rows("das", 1, 4);
  request::Request& passed = push({.tokens = 1, .deadline_ns = 5 * kMs});
  request::Request& too_soon = push({.tokens = 2, .deadline_ns = 10 * kMs + kMs / 10});
  request::Request& met = push({.tokens = 2, .deadline_ns = 11 * kMs});
  request::Request& last = push({.tokens = 2});
  push({.tokens = 2});
  policy->choose({.now_ns = 5 * kMs, .start_ns = 10 * kMs, .costs = costs()}, choice);
  EXPECT_EQ(choice.batch, (Requests{&met, &last}));
  ASSERT_EQ(choice.refused.size(), 2u);
  EXPECT_EQ(choice.refused[0].request, &passed);
  EXPECT_EQ(choice.refused[0].why, DeadlineMiss::kPassed);
  EXPECT_EQ(choice.refused[1].request, &too_soon);
  EXPECT_EQ(choice.refused[1].why, DeadlineMiss::kTooSoon);
  EXPECT_EQ(policy->queue().num_requests(), 1u);
}

// Random waiting sets, chosen from until they are empty while others arrive. Both algorithms, one
// and several rows, request limits that bind, weights, deadlines that pass.
class DasReferenceTest : public DasTest,
                         public testing::WithParamInterface<std::tuple<bool, bool>> {};

TEST_P(DasReferenceTest, ChoosesAsTheReference) {
  const auto [slotted, weighted] = GetParam();
  Random random(7);
  uint64_t num_chosen = 0, num_discarded = 0;
  for (int round = 0; round < 4000; ++round) {
    const uint32_t num_rows = 1 + static_cast<uint32_t>(random.below(3));
    const uint32_t row_tokens = 8 + static_cast<uint32_t>(random.below(60));
    const uint32_t max_requests = random.below(3) == 0 ? 16 : 64;
    const auto tenths = static_cast<double>(random.below(10));
    const double eta = tenths == 0 ? 1e-12 : tenths / 10;
    make_rows(fmt::format("{}:eta={}{}", slotted ? "slotted_das" : "das", eta,
                          weighted ? ",weighted" : ""),
              num_rows, row_tokens, max_requests);
    requests.clear();
    std::vector<reference::Task> waiting;
    for (uint64_t now_ns = 0; now_ns < 4; ++now_ns) {
      for (uint64_t n = random.below(40); n > 0; --n) {
        request::Request& r = requests.emplace_back();
        r.num_tokens = 1 + static_cast<uint32_t>(random.below(random.below(2) ? 6 : row_tokens));
        r.deadline_ns = random.below(4) == 0 ? 0 : now_ns + 1 + random.below(8);
        r.settings.weight = 1 + static_cast<uint32_t>(random.below(4));
        ASSERT_TRUE(policy->push(&r, now_ns, costs()));
        waiting.push_back({.id = requests.size() - 1,
                           .length = r.num_tokens,
                           .deadline = r.deadline_ns,
                           .weight = weighted ? r.settings.weight : 1});
      }
      std::erase_if(waiting, [&](const reference::Task& task) {
        return task.deadline != 0 && task.deadline <= now_ns;
      });
      const reference::Capacity capacity{num_rows, row_tokens, max_requests};
      std::vector<reference::Row> rows;
      uint32_t slot_tokens = 0;
      const size_t num_waiting = waiting.size();
      if (slotted)
        slot_tokens = reference::slotted_das(waiting, capacity, eta, rows);
      else
        rows = reference::das(waiting, capacity, eta);
      choose_rows(now_ns);
      std::vector<std::pair<uint32_t, request::Request*>> expected_batch, batch;
      for (uint32_t k = 0; k < rows.size(); ++k)
        for (const reference::Task& task : rows[k].tasks)
          expected_batch.emplace_back(k, &requests[task.id]);
      for (request::Request* r : choice.batch) batch.emplace_back(r->row, r);
      ASSERT_EQ(batch, expected_batch) << "round " << round;
      ASSERT_EQ(choice.slot_tokens, num_waiting > 0 ? slot_tokens : 0) << "round " << round;
      num_chosen += batch.size();
      num_discarded += waiting.size();
    }
  }
  EXPECT_GT(num_chosen, 100'000u);
  EXPECT_GT(num_discarded, 100'000u);
}

INSTANTIATE_TEST_SUITE_P(All, DasReferenceTest, testing::Combine(testing::Bool(), testing::Bool()));

}  // namespace
}  // namespace itif::sched
