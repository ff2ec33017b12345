// The price of a pass on a device with graphs: it pays for its launches exactly if the layout finds
// no graph bucket for it.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "base/random.h"
#include "plan/make_planner.h"
#include "runtime/cost/pass_pricer.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

constexpr uint32_t kTenants = 20, kLongest = 200;  // tokens
constexpr plan::PlanLimits kBucketLimits{.max_requests = 128, .max_rows = 3072};
constexpr double kLaunchNs = 1e12;  // more than all else costs

// Everything but launches costs next to nothing.
std::shared_ptr<const plan::CostTables> launches_only() {
  plan::CostTables tables;
  tables.device = tables.backbone = "test";
  tables.lengths = {1, 4096};
  tables.batches = tables.sizes = {1, 2};
  tables.counts = {2, 4};
  tables.gemm_ns = {1, 1, 1, 1};
  tables.batched_gemm_ns = {1, 1, 1, 1, 1, 1, 1, 1};
  tables.range_counts = {1, 2};
  tables.range_rows = {1, 4096};
  plan::SharedGemm gemm;
  gemm.n = gemm.k = 1;
  gemm.sequential_ns = gemm.concurrent_ns = {1, 1, 1, 1};
  tables.shared_gemms = {gemm};
  tables.launch_ns = kLaunchNs;
  EXPECT_TRUE(plan::validate(tables));
  return std::make_shared<const plan::CostTables>(std::move(tables));
}

model::BackboneSpec spec() {
  model::BackboneSpec spec = testing::odd_spec();
  spec.layers = 1;
  spec.hidden = 3;
  spec.intermediate = 1;
  spec.max_positions = kLongest;
  return spec;
}

class BucketPrices : public ::testing::Test {
 protected:
  BucketPrices() {
    device_.use_buckets_of(4096);
    small_ = std::make_unique<testing::SmallGroup>(
        device_, spec(),
        GroupOptions{.max_tokens = kBucketLimits.max_rows,
                     .max_requests = kBucketLimits.max_requests,
                     .max_tenants = kTenants,
                     .shares_weights = false});
    for (uint32_t slot = 5; slot < kTenants; ++slot)
      EXPECT_EQ(small_->group->admit(small_->directories[slot % 5], nullptr), slot);
    device_.state().on_operator = [&](const kernels::Operator& op) {
      const auto* attention = std::get_if<const kernels::Attention*>(&op);
      if (attention) num_launched_ += (*attention)->max_bucket_rows == 0;
    };
    pricer_ =
        std::make_shared<PassPricer>(device_.info(), kBucketLimits, tables_,
                                     small_->group->pass_weights(), small_->group->graph_buckets());
  }

  plan::Plan plan(const char* planner, const std::vector<plan::Item>& items) {
    plan::Plan made;
    plan::make_planner(planner,
                       {.limits = kBucketLimits, .tables = tables_.get(), .pricer = pricer_})
        .value()
        ->plan(items, made);
    return made;
  }
  // Returns the passes that pay for their launches by the pricer.
  int priced(const plan::Plan& plan) {
    return static_cast<int>(std::floor(pricer_->price_ns(plan) / kLaunchNs));
  }
  // Runs the plan. Returns the passes for which the layout has found no bucket.
  int launched(const plan::Plan& plan, uint32_t pieces_per_request = 1) {
    std::vector<testing::TestRequest> inputs;
    std::vector<std::pair<uint32_t, uint32_t>> places;  // mini-batch and call of each segment
    for_each_segment(plan, [&](const plan::Segment& segment, uint32_t mini_batch, uint32_t call) {
      inputs.push_back({.slot = segment.slot,
                        .ids = std::vector<uint32_t>(segment.num_tokens, 7),
                        .ids_per_piece = (segment.num_tokens - 1) / pieces_per_request + 1,
                        .padding = segment.num_rows - segment.num_tokens,
                        .score_matrix = segment.score_matrix});
      places.emplace_back(mini_batch, call);
    });
    testing::TestBatch batch(inputs);
    for (size_t i = 0; i < places.size(); ++i)
      std::tie(batch.segments()[i].mini_batch, batch.segments()[i].call) = places[i];
    num_launched_ = 0;
    for (const plan::Pass& pass : plan.passes) {
      Batch run{std::span(batch.segments()).subspan(pass.first_segment, pass.num_segments)};
      if (plan.has_fixed_calls) run.calls = plan.calls;
      EXPECT_TRUE(small_->group->forward(*small_->stream, run));
    }
    for (const testing::Answer& answer : batch.answers()) EXPECT_TRUE(answer.ok());
    return num_launched_;
  }

  const std::shared_ptr<const plan::CostTables> tables_ = launches_only();
  testing::PlainDevice device_;
  std::unique_ptr<testing::SmallGroup> small_;
  std::shared_ptr<PassPricer> pricer_;
  int num_launched_ = 0;
};

std::vector<plan::Item> equal_items(uint32_t num_tenants, uint32_t num_tokens) {
  std::vector<plan::Item> items;
  for (uint32_t slot = 0; slot < num_tenants; ++slot) items.push_back({slot, num_tokens});
  return items;
}

TEST_F(BucketPrices, AgreeWithTheLayoutForTenantsWhoseRowsFillNoBucket) {
  const plan::Plan none = plan("packed", equal_items(20, 150));
  EXPECT_EQ(launched(none), 1) << "20 x 150 rows take 40 ranges of 128 rows, or more shorter ones";
  EXPECT_EQ(priced(none), 1);
  const plan::Plan found = plan("packed", equal_items(20, 128));
  EXPECT_EQ(launched(found), 0);
  EXPECT_EQ(priced(found), 0);
  const plan::Plan padded = plan("packed", equal_items(10, 97));
  EXPECT_EQ(launched(padded), 1) << "padding would be more than a quarter of the rows";
  EXPECT_EQ(priced(padded), 1);
}

// Requests of one to eight tenants, or of all; few or many; long or short.
std::vector<plan::Item> random_items(Random& random) {
  const auto any = [&](uint32_t most) { return static_cast<uint32_t>(random.below(most)); };
  const uint32_t tenants = any(2) == 0 ? kTenants : 1 + any(8);
  const uint32_t longest = any(2) == 0 ? kLongest : 1 + any(40);
  std::vector<plan::Item> items;
  uint32_t tokens = 0;
  for (uint32_t count = 1 + any(any(2) == 0 ? 12 : 100); items.size() < count;) {
    items.push_back({any(tenants), 1 + any(longest)});
    tokens += items.back().num_tokens;
    if (tokens <= kBucketLimits.max_rows) continue;
    items.pop_back();
    break;
  }
  return items;
}

TEST_F(BucketPrices, AgreeWithTheLayoutForRandomPasses) {
  Random random(5);
  int num_passes = 0, num_without = 0;
  for (int round = 0; round < 80; ++round) {
    const std::vector<plan::Item> items = random_items(random);
    const auto pieces = static_cast<uint32_t>(1 + random.below(2));
    for (const char* planner : {"packed", "concat", "itif"}) {
      const plan::Plan made = plan(planner, items);
      const int expected = launched(made, pieces);
      ASSERT_EQ(priced(made), expected)
          << planner << ", round " << round << ": " << made.num_rows << " rows of "
          << made.mini_batches.size() << " mini-batches, " << items.size() << " requests";
      if (made.has_fixed_calls) continue;
      num_passes += static_cast<int>(made.passes.size());
      num_without += expected;
    }
  }
  EXPECT_GT(num_without, num_passes / 5);
  EXPECT_LT(num_without, num_passes * 4 / 5);
}

}  // namespace
}  // namespace itif::runtime
