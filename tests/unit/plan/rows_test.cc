// concat and slotted: rows and slots as TCB's section 4 describes them, against brute force.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "plan/make_planner.h"
#include "plan/verify.h"
#include "support/exhaustive.h"

namespace itif::plan {
namespace {

constexpr PlanLimits kRowLimits{.max_requests = 16, .max_rows = 64};

std::unique_ptr<Planner> rows_planner(const std::string& text,
                                      const PlanLimits& limits = kRowLimits) {
  auto made = make_planner(text, {.limits = limits});
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

// The items of each score matrix, in order.
std::vector<std::vector<uint32_t>> rows_of(const Plan& plan) {
  std::vector<std::vector<uint32_t>> rows;
  for (const Segment& segment : plan.segments) {
    rows.resize(std::max<size_t>(rows.size(), segment.score_matrix + 1));
    rows[segment.score_matrix].push_back(segment.item);
  }
  return rows;
}

uint32_t num_matrices(const Plan& plan) {
  return static_cast<uint32_t>(rows_of(plan).size());
}

// The fewest rows of `capacity` tokens, over all divisions. A longer request has its own row.
uint32_t fewest_rows(const std::vector<Item>& items, uint32_t capacity) {
  uint32_t fewest = UINT32_MAX;
  for_each_division(static_cast<uint32_t>(items.size()), false, [&](auto group_of, uint32_t num) {
    std::vector<uint32_t> tokens(num), count(num);
    for (size_t i = 0; i < items.size(); ++i) {
      tokens[group_of[i]] += items[i].num_tokens;
      ++count[group_of[i]];
    }
    for (uint32_t row = 0; row < num; ++row)
      if (tokens[row] > capacity && count[row] > 1) return;
    fewest = std::min(fewest, num);
  });
  return fewest;
}

TEST(Rows, EveryBatchFillsRowsThatHoldAndFewerThanTwiceTheLeast) {
  const std::map<std::string, uint32_t> planners = {
      {"concat", 0}, {"concat:row_tokens=6", 6}, {"slotted", 0}, {"slotted:slot_tokens=4", 4}};
  size_t shared_by_tenants = 0;
  for (const auto& [text, setting] : planners) {
    const auto planner = rows_planner(text);
    Plan plan;
    for_each_batch(5, {1, 2, 3, 7}, 3, [&, setting = setting](const std::vector<Item>& items) {
      planner->plan(items, plan);
      const Status right = verify(plan, items, kRowLimits);
      ASSERT_TRUE(right) << text << ": " << right.error().message;
      uint32_t capacity = setting;
      for (const Item& item : items)
        if (setting == 0) capacity = std::max(capacity, item.num_tokens);
      const uint32_t least = fewest_rows(items, capacity);
      EXPECT_LT(num_matrices(plan), 2 * least) << text;
      for (const auto& row : rows_of(plan)) {
        uint32_t tokens = 0;
        std::set<uint32_t> slots;
        for (const uint32_t item : row) {
          tokens += items[item].num_tokens;
          slots.insert(items[item].slot);
        }
        EXPECT_TRUE(tokens <= capacity || row.size() == 1) << text;
        shared_by_tenants += slots.size() > 1;
      }
      for (const Pass& pass : plan.passes) EXPECT_EQ(pass.matrix_rows, capacity);
    });
  }
  EXPECT_GT(shared_by_tenants, 1000u) << "rows mix tenants";
}

// Figure 4: nine requests in three rows of 90 tokens; in slots of 30, none crosses a slot.
TEST(Rows, HoldThePapersExample) {
  const PlanLimits limits{.max_requests = 16, .max_rows = 270};
  std::vector<Item> items;
  for (const uint32_t tokens : {10, 20, 30, 30, 10, 15, 30, 30, 15, 15, 20, 20})
    items.push_back({0, tokens});
  Plan plan;
  rows_planner("concat:row_tokens=90", limits)->plan(items, plan);
  EXPECT_TRUE(verify(plan, items, limits));
  EXPECT_EQ(num_matrices(plan), 3u);
  EXPECT_EQ(plan.num_rows, 270u);
  EXPECT_EQ(plan.passes.size(), 1u);
  rows_planner("slotted:row_tokens=90,slot_tokens=30", limits)->plan(items, plan);
  EXPECT_TRUE(verify(plan, items, limits));
  for (const auto& slot : rows_of(plan)) {
    uint32_t tokens = 0;
    for (const uint32_t item : slot) tokens += items[item].num_tokens;
    EXPECT_LE(tokens, 30u);
  }
  // The longest request is of 30 tokens: the planner finds the paper's slot itself.
  Plan chosen;
  rows_planner("slotted:row_tokens=90", limits)->plan(items, chosen);
  EXPECT_EQ(chosen.passes[0].matrix_rows, 30u);
}

TEST(Rows, SlotsDivideTheRowEquallyAndHoldTheLongestRequest) {
  const auto planner = rows_planner("slotted:row_tokens=60");
  Plan plan;
  for (uint32_t longest = 1; longest <= 60; ++longest) {
    planner->plan(std::vector<Item>{{0, longest}}, plan);
    const uint32_t slot = plan.passes[0].matrix_rows;
    EXPECT_GE(slot, longest);
    EXPECT_EQ(60 / slot, 60 / longest) << "as many slots as can hold it";
  }
}

// The paper's scheduler never chooses such requests; here their clients wait.
TEST(Rows, ALongerRequestHasARowOfItsOwnLength) {
  const std::vector<Item> items = {{0, 3}, {0, 20}, {1, 4}, {1, 1}};
  for (const char* text :
       {"concat:row_tokens=8", "slotted:slot_tokens=8", "slotted:row_tokens=8"}) {
    Plan plan;
    rows_planner(text)->plan(items, plan);
    EXPECT_TRUE(verify(plan, items, kRowLimits));
    const auto longer = std::ranges::find(plan.segments, 1u, &Segment::item);
    EXPECT_EQ(longer->num_rows, 20u) << text;
    for (const Segment& segment : plan.segments)
      EXPECT_EQ(segment.score_matrix == longer->score_matrix, segment.item == 1) << text;
  }
}

TEST(Rows, RowsThatDoNotFitAPassGoToTheNext) {
  const std::vector<Item> items(7, Item{0, 15});
  Plan plan;
  rows_planner("concat:row_tokens=20")->plan(items, plan);
  EXPECT_TRUE(verify(plan, items, kRowLimits));
  ASSERT_EQ(plan.passes.size(), 3u);
  EXPECT_EQ(plan.passes[0].num_rows, 60u);
  EXPECT_EQ(plan.passes[2].num_rows, 20u);
}

// Checks which items are in the rows or slots of `row_tokens`.
void expect_rows(const char* planner, std::span<const Item> items, const RowChoice& choice,
                 uint32_t row_tokens, const std::vector<std::vector<uint32_t>>& expected) {
  Plan plan;
  rows_planner(planner)->plan_rows(items, choice, plan);
  EXPECT_TRUE(verify(plan, items, kRowLimits));
  EXPECT_EQ(plan.passes[0].matrix_rows, row_tokens);
  auto rows = rows_of(plan);
  for (auto& row : rows) std::ranges::sort(row);
  EXPECT_EQ(rows, expected) << planner;
}

// With the longest first, 5 and 4, three of 3, and 2 need three rows of 10. The policy needs two.
TEST(Rows, ThePolicysRowsAreKeptIfTheyAreFewer) {
  const std::vector<Item> items = {{0, 5}, {0, 3}, {0, 2}, {0, 4}, {0, 3}, {0, 3}};
  const std::vector<uint32_t> choice = {1, 1, 1, 4, 4, 4};
  const std::vector<std::vector<uint32_t>> expected = {{0, 1, 2}, {3, 4, 5}};
  expect_rows("concat:row_tokens=10", items, {.rows = choice}, 10, expected);
  expect_rows("slotted:slot_tokens=10", items, {.rows = choice}, 10, expected);
  expect_rows("slotted:slot_tokens=9", items, {.rows = choice, .slots = choice, .slot_tokens = 10},
              10, expected);
  // Tenant by tenant, these would need a third slot.
  const std::vector<Item> mixed = {{0, 6}, {0, 3}, {0, 3}, {1, 4}, {1, 4}};
  const std::vector<uint32_t> full = {0, 1, 1, 0, 1};
  expect_rows("slotted:slot_tokens=10", mixed, {.rows = full}, 10, {{0, 3}, {1, 2, 4}});
}

// Tenant by tenant, with the longest first, 5 fills a row, 4 and 2 the next, 3 and 1 the last.
TEST(Rows, ThePlannerFillsFewerRowsThanThePolicy) {
  const std::vector<Item> items = {{0, 2}, {1, 3}, {0, 4}, {1, 1}, {0, 5}};
  const std::vector<uint32_t> choice = {0, 1, 1, 3, 3}, slots = {0, 3, 2, 3, 5};
  const std::vector<std::vector<uint32_t>> expected = {{4}, {0, 2}, {1, 3}};
  expect_rows("concat:row_tokens=6", items, {.rows = choice}, 6, expected);
  expect_rows("slotted:slot_tokens=6", items, {.rows = choice}, 6, expected);
  // The policy's size of slots counts, not the planner's.
  expect_rows("slotted:slot_tokens=9", items, {.rows = choice, .slots = slots, .slot_tokens = 6}, 6,
              expected);
}

// Each run of a tenant's requests is a GEMM, so concat fills the rows of several tenants again if
// that takes at most an eighth more rows. Tenant by tenant, the last case needs a third row.
TEST(Rows, ConcatKeepsATenantsRequestsTogether) {
  const std::vector<Item> items = {{0, 5}, {1, 5}, {0, 5}, {1, 5}};
  const std::vector<uint32_t> mixed = {0, 0, 1, 1};
  Plan plan;
  rows_planner("concat:row_tokens=10")->plan_rows(items, {.rows = mixed}, plan);
  EXPECT_TRUE(verify(plan, items, kRowLimits));
  EXPECT_EQ(plan.mini_batches.size(), 2u);
  EXPECT_EQ(plan.num_rows, 20u);
  const std::vector<Item> tight = {{0, 6}, {0, 3}, {0, 3}, {1, 4}, {1, 4}};
  const std::vector<uint32_t> full = {0, 1, 1, 0, 1};
  rows_planner("concat:row_tokens=10")->plan_rows(tight, {.rows = full}, plan);
  EXPECT_TRUE(verify(plan, tight, kRowLimits));
  EXPECT_EQ(plan.num_rows, 20u);
}

// B rows of L tokens fit a pass. Without a fixed L a policy has no rows to fill.
TEST(Rows, OffersPoliciesAsManyRowsAsFitAPass) {
  for (const char* text : {"concat:row_tokens=20", "slotted:row_tokens=20,slot_tokens=5"}) {
    const auto rows = rows_planner(text)->rows();
    ASSERT_TRUE(rows) << text;
    EXPECT_EQ(rows->number, 3u);
    EXPECT_EQ(rows->tokens, 20u);
  }
  for (const char* text : {"packed", "concat", "slotted:slot_tokens=5"})
    EXPECT_FALSE(rows_planner(text)->rows()) << text;
  const PlanLimits alone{.max_requests = 16, .max_rows = 64, .max_pass_tenants = 1};
  EXPECT_FALSE(rows_planner("concat:row_tokens=20", alone)->rows());
}

// A tenant's rows are one GEMM where they are adjacent.
TEST(Rows, ATenantsRequestsStayTogether) {
  std::vector<Item> items;
  for (uint32_t i = 0; i < 16; ++i) items.push_back({i % 2, 4});
  Plan plan;
  rows_planner("concat:row_tokens=16")->plan(items, plan);
  EXPECT_EQ(plan.passes.size(), 1u);
  EXPECT_EQ(plan.mini_batches.size(), 2u);
}

TEST(Rows, TenantPassesKeepTheSlotSize) {
  const PlanLimits limits{.max_requests = 16, .max_rows = 64, .max_pass_tenants = 1};
  const std::vector<Item> items = {{0, 2}, {1, 3}, {0, 4}, {1, 1}};
  const std::vector<uint32_t> in_slot = {0, 0, 1, 1};
  Plan plan;
  rows_planner("slotted", limits)->plan_rows(items, {.slots = in_slot, .slot_tokens = 7}, plan);
  const Status right = verify(plan, items, limits);
  ASSERT_TRUE(right) << right.error().message;
  ASSERT_EQ(plan.passes.size(), 2u);
  for (const Pass& pass : plan.passes) EXPECT_EQ(pass.matrix_rows, 7u);
  EXPECT_EQ(num_matrices(plan), 2u);
}

TEST(Rows, BadSettingsAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"concat:slot_tokens=4", "planner 'concat' has no setting 'slot_tokens'"},
      {"packed:row_tokens=4", "planner 'packed' has no setting 'row_tokens'"},
      {"concat:", "planner 'concat' has no setting ''"},
      {"concat:rows=4", "planner 'concat' has no setting 'rows'"},
      {"concat:row_tokens", "'row_tokens' is '', and must be a number of tokens above 0"},
      {"concat:row_tokens=0", "'row_tokens' is '0'"},
      {"concat:row_tokens=-1", "'row_tokens' is '-1'"},
      {"concat:row_tokens=4x", "'row_tokens' is '4x'"},
      {"concat:row_tokens=5000000000", "'row_tokens' is '5000000000'"},
      {"concat:row_tokens=4,row_tokens=4", "'row_tokens' is set twice"},
      {"concat:row_tokens=65", "'row_tokens' is 65, more than a batch can have tokens, 64"},
      {"slotted:slot_tokens=65", "'slot_tokens' is 65, more than a batch can have tokens, 64"},
      {"slotted:slot_tokens=9,row_tokens=8", "'slot_tokens' is 9, more than a row has"},
      {"best:row_tokens=4", "unknown planner 'best'"}};
  for (const auto& [text, message] : refused) {
    const auto made = make_planner(text, {.limits = kRowLimits});
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().code, Code::kInvalidArgument);
    EXPECT_NE(made.error().message.find(message), std::string::npos)
        << text << ": " << made.error().message;
  }
  EXPECT_EQ(rows_planner("slotted:row_tokens=8,slot_tokens=4")->name(), "slotted");
  EXPECT_TRUE(shares_scores("concat:row_tokens=8"));
  EXPECT_FALSE(shares_scores("packed"));
  EXPECT_FALSE(needs_cost_tables("concat"));
}

TEST(Rows, VerifyFindsEachFaultOfAMatrix) {
  const std::vector<Item> items = {{0, 2}, {0, 3}, {1, 4}, {1, 20}, {2, 1}};
  Plan good;
  rows_planner("concat:row_tokens=8")->plan(items, good);
  ASSERT_TRUE(verify(good, items, kRowLimits));
  const std::vector<std::function<void(Plan&)>> faults = {
      [](Plan& plan) { plan.passes[0].matrix_rows = 9; },
      [](Plan& plan) { plan.passes[0].matrix_rows = 0; },
      [](Plan& plan) { plan.segments[0].score_matrix = kOwnScores; },
      [](Plan& plan) { plan.segments[1].score_matrix += 1; },
      [](Plan& plan) { ++plan.segments.back().score_matrix; },
      [](Plan& plan) {  // padding between requests of a row
        for (size_t i = 0; i + 1 < plan.segments.size(); ++i) {
          Segment &a = plan.segments[i], &b = plan.segments[i + 1];
          if (a.score_matrix != b.score_matrix || a.slot != b.slot || b.num_rows == b.num_tokens)
            continue;
          ++a.num_rows;
          ++b.first_row;
          --b.num_rows;
          return;
        }
        ADD_FAILURE() << "the plan has no such row";
      }};
  for (size_t i = 0; i < faults.size(); ++i) {
    Plan plan = good;
    faults[i](plan);
    EXPECT_FALSE(verify(plan, items, kRowLimits)) << i;
  }
}

}  // namespace
}  // namespace itif::plan
