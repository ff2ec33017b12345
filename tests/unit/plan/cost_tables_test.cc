#include "plan/cost_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "support/tables.h"

namespace itif::plan {
namespace {

CostTables good() {
  CostTables tables = full_tables(
      {4, 8, 16}, 3, [](uint32_t l, uint32_t b) { return 10.0 + l * b; },
      [](uint32_t l, uint32_t c, uint32_t s) { return 12.0 + l * c * s; });
  tables.range_counts = {2, 8};
  tables.range_rows = {16, 64};
  tables.shared_gemms = {
      {.n = 32, .k = 16, .sequential_ns = {1, 2, 3, 4}, .concurrent_ns = {1, 1, 1, 1}}};
  return tables;
}

TEST(CostTables, ValidateNamesTheFieldThatIsWrong) {
  ASSERT_TRUE(validate(good()));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Fault {
    const char* field;
    std::function<void(CostTables&)> make;
  };
  const Fault faults[] = {
      {"device", [](CostTables& t) { t.device.clear(); }},
      {"device", [](CostTables& t) { t.device.assign(kMaxNameBytes + 1, 'x'); }},
      {"device", [](CostTables& t) { t.device = "two\nlines"; }},
      {"backbone", [](CostTables& t) { t.backbone.clear(); }},
      {"backbone", [](CostTables& t) { t.backbone = std::string("nul\0", 4); }},
      {"lengths", [](CostTables& t) { t.lengths.clear(); }},
      {"lengths", [](CostTables& t) { t.lengths[0] = 0; }},
      {"lengths", [](CostTables& t) { t.lengths[1] = 4; }},
      {"lengths", [](CostTables& t) { t.lengths[2] = 5; }},
      {"lengths", [](CostTables& t) { t.lengths[2] = kMaxBucket + 1; }},
      {"lengths", [](CostTables& t) { t.lengths.resize(kMaxBuckets + 1, 7); }},
      {"batches", [](CostTables& t) { t.batches.clear(); }},
      {"batches", [](CostTables& t) { t.batches[0] = 2; }},
      {"counts", [](CostTables& t) { t.counts.clear(); }},
      {"counts", [](CostTables& t) { t.counts[0] = 1; }},
      {"sizes", [](CostTables& t) { t.sizes.clear(); }},
      {"sizes", [](CostTables& t) { t.sizes[0] = 0; }},
      {"gemm_ns", [](CostTables& t) { t.gemm_ns.pop_back(); }},
      {"gemm_ns", [](CostTables& t) { t.gemm_ns.push_back(1); }},
      {"gemm_ns", [](CostTables& t) { t.gemm_ns[3] = 0; }},
      {"gemm_ns", [](CostTables& t) { t.gemm_ns[3] = -1; }},
      {"gemm_ns", [nan](CostTables& t) { t.gemm_ns[8] = nan; }},
      {"gemm_ns", [](CostTables& t) { t.gemm_ns[8] = INFINITY; }},
      {"gemm_ns", [](CostTables& t) { t.gemm_ns[8] = 2 * kMaxCostNs; }},
      {"batched_gemm_ns", [](CostTables& t) { t.batched_gemm_ns.pop_back(); }},
      {"batched_gemm_ns", [nan](CostTables& t) { t.batched_gemm_ns[0] = nan; }},
      {"batched_gemm_ns", [](CostTables& t) { t.counts.clear(), t.sizes.clear(); }},
      {"range_counts", [](CostTables& t) { t.range_counts[0] = 0; }},
      {"range_rows", [](CostTables& t) { t.range_rows.clear(); }},
      {"shared_gemms", [](CostTables& t) { t.shared_gemms.clear(); }},
      {"shared_gemms", [](CostTables& t) { t.shared_gemms[0].k = 0; }},
      {"0 times", [](CostTables& t) { t.shared_gemms[0].times = 0; }},
      {"other_row_ns", [](CostTables& t) { t.other_row_ns = {0}; }},
      {"other_row_ns", [](CostTables& t) { t.other_row_ns.resize(t.lengths.size() + 1, 1); }},
      {"shared_gemms", [](CostTables& t) { t.shared_gemms.push_back(t.shared_gemms[0]); }},
      {"in_turn_ns", [](CostTables& t) { t.shared_gemms[0].sequential_ns.pop_back(); }},
      {"at_once_ns", [](CostTables& t) { t.shared_gemms[0].concurrent_ns[2] = -1; }},
      {"streams_ns",
       [](CostTables& t) {
         t.shared_gemms[0].streams_ns = {1, 2, 3};
       }},
      {"pointers_ns",
       [](CostTables& t) {
         t.shared_gemms[0].pointers_ns = {1, 2, 3, 0};
       }},
      {"uneven_at_once_ns", [](CostTables& t) { t.shared_gemms[0].uneven_concurrent_ns = {1}; }},
      {"launch_ns", [](CostTables& t) { t.launch_ns = -1; }},
      {"launch_ns", [nan](CostTables& t) { t.launch_ns = nan; }},
  };
  for (const Fault& fault : faults) {
    CostTables tables = good();
    fault.make(tables);
    const Status status = validate(tables);
    ASSERT_FALSE(status) << fault.field;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_NE(status.error().message.find(fault.field), std::string::npos)
        << fault.field << ": " << status.error().message;
  }
  CostTables without = good();
  without.counts.clear();
  without.sizes.clear();
  without.batched_gemm_ns.clear();
  EXPECT_TRUE(validate(without));
  EXPECT_TRUE(without.serve_planners());
  without.lengths.clear();
  without.batches.clear();
  EXPECT_FALSE(validate(without));
  without.gemm_ns.clear();
  EXPECT_TRUE(validate(without));
  EXPECT_FALSE(without.serve_planners());
  without.shared_gemms[0].n = 0;
  EXPECT_FALSE(validate(without));
}

TEST(CostTables, SharedGemmsAreLinearBetweenPointsAndProportionalBeyond) {
  const CostTables tables = good();
  const auto cost = [&](double count, double rows) {
    return shared_gemm_ns(tables, tables.shared_gemms[0].sequential_ns, count, rows);
  };
  EXPECT_EQ(cost(2, 16), 1);
  EXPECT_EQ(cost(2, 64), 2);
  EXPECT_EQ(cost(8, 16), 3);
  EXPECT_EQ(cost(8, 64), 4);
  EXPECT_EQ(cost(5, 40), 2.5);
  EXPECT_EQ(cost(1, 1), 1);
  EXPECT_EQ(cost(16, 64), 8);
  EXPECT_EQ(cost(2, 1024), 32);
  EXPECT_EQ(cost(80, 640), 400);
}

TEST(CostTables, MakeMonotoneRemovesEveryDecrease) {
  const std::vector<uint32_t> lengths = {1, 5, 9, 30};
  Random random(4);
  for (int round = 0; round < 100; ++round) {
    CostTables tables = full_tables(
        lengths, 4, [&](uint32_t l, uint32_t b) { return l * b + 30 * random.uniform(); },
        [&](uint32_t l, uint32_t c, uint32_t s) { return l * c * s + 30 * random.uniform(); });
    make_monotone(tables);
    ASSERT_TRUE(validate(tables));
    for (size_t l = 0; l < lengths.size(); ++l) {
      for (uint32_t batch = 1; batch <= 4; ++batch) {
        const double cost = gemm_ns(tables, lengths[l], batch);
        if (l > 0) {
          EXPECT_GE(cost, gemm_ns(tables, lengths[l - 1], batch));
        }
        if (batch > 1) {
          EXPECT_GE(cost, gemm_ns(tables, lengths[l], batch - 1));
        }
        for (uint32_t count = 2; count <= 4; ++count) {
          const auto b = [&](size_t l, uint32_t c, uint32_t s) {
            return batched_gemm_ns(tables, lengths[l], c, s);
          };
          const double batched = b(l, count, batch);
          if (l > 0) {
            EXPECT_GE(batched, b(l - 1, count, batch));
          }
          if (count > 2) {
            EXPECT_GE(batched, b(l, count - 1, batch));
          }
          if (batch > 1) {
            EXPECT_GE(batched, b(l, count, batch - 1));
          }
        }
      }
    }
  }
}

TEST(CostTables, MakeMonotoneKeepsMonotoneTablesAndAveragesOutliers) {
  CostTables tables = good();
  make_monotone(tables);
  EXPECT_EQ(tables, good());

  CostTables one = good();
  one.lengths = {4};
  one.batches = {1, 2, 3, 4, 5};
  one.gemm_ns = {10, 90, 30, 40, 50};
  one.counts.clear();
  one.sizes.clear();
  one.batched_gemm_ns.clear();
  make_monotone(one);
  EXPECT_EQ(one.gemm_ns, (std::vector<double>{10, 60, 60, 65, 70}));
}

}  // namespace
}  // namespace itif::plan
