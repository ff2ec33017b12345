#include "plan/cost_model.h"

#include <gtest/gtest.h>

#include "support/tables.h"

namespace itif::plan {
namespace {

CostTables coarse() {
  CostTables tables;
  tables.device = "a device";
  tables.backbone = "a backbone";
  tables.lengths = {10, 20, 40};
  tables.batches = {2, 4};
  tables.gemm_ns = {100, 200, 300, 500, 700, 1300};
  tables.counts = {2, 4};
  tables.sizes = {1, 3};
  tables.batched_gemm_ns = {10, 20, 30, 50, 60, 80, 100, 130, 200, 260, 300, 400};
  return tables;
}

TEST(CostModel, GivesMeasuredCostsExactly) {
  Random random(2);
  const CostTables tables = full_tables(
      {3, 17, 50}, 9, [&](uint32_t, uint32_t) { return random.uniform(); },
      [&](uint32_t, uint32_t, uint32_t) { return random.uniform(); });
  const CostModel model(tables, 9);
  for (const uint32_t length : tables.lengths) {
    for (uint32_t batch = 1; batch <= 9; ++batch)
      EXPECT_EQ(model.gemm(length)[batch], gemm_ns(tables, length, batch));
    for (uint32_t size = 1; size <= 4; ++size)
      for (uint32_t count = 2; count * size <= 9; ++count)
        EXPECT_EQ(model.batched_gemm(length, size)[count],
                  batched_gemm_ns(tables, length, count, size));
  }
}

TEST(CostModel, IsLinearBetweenMeasuredPoints) {
  const CostModel model(coarse(), 12);
  EXPECT_DOUBLE_EQ(model.gemm(10)[3], 150);
  EXPECT_DOUBLE_EQ(model.gemm(15)[2], 200);
  EXPECT_DOUBLE_EQ(model.gemm(35)[4], 1100);
  EXPECT_DOUBLE_EQ(model.gemm(30)[3], (400 + 1000) / 2.0);
  EXPECT_DOUBLE_EQ(model.batched_gemm(10, 2)[2], 15);
  EXPECT_DOUBLE_EQ(model.batched_gemm(10, 2)[3], (15 + 40) / 2.0);
  EXPECT_DOUBLE_EQ(model.batched_gemm(15, 2)[3], ((15 + 40) / 2.0 + (70 + 115) / 2.0) / 2);
}

TEST(CostModel, IsFlatBeforeTheFirstPointAndProportionalBeyondTheLast) {
  const CostModel model(coarse(), 12);
  EXPECT_DOUBLE_EQ(model.gemm(1)[1], 100);
  EXPECT_DOUBLE_EQ(model.gemm(1)[4], 200);
  EXPECT_DOUBLE_EQ(model.gemm(80)[2], 1400);
  EXPECT_DOUBLE_EQ(model.gemm(40)[12], 3900);
  EXPECT_DOUBLE_EQ(model.gemm(80)[8], 1300 * 4);
  EXPECT_DOUBLE_EQ(model.batched_gemm(5, 1)[8], 60);
  EXPECT_DOUBLE_EQ(model.batched_gemm(10, 6)[2], 40);
  EXPECT_DOUBLE_EQ(model.batched_gemm(80, 1)[12], 300 * 3 * 2);
}

TEST(CostModel, IsMonotoneWhereTheTablesAre) {
  CostTables tables = coarse();
  Random random(6);
  for (double& cost : tables.gemm_ns) cost *= 0.2 + random.uniform();
  for (double& cost : tables.batched_gemm_ns) cost *= 0.2 + random.uniform();
  make_monotone(tables);
  const CostModel model(tables, 30);
  const double less = 1 - 1e-12;
  for (uint32_t length = 2; length < 100; ++length) {
    for (uint32_t n = 2; n <= 30; ++n) {
      EXPECT_GE(model.gemm(length)[n], less * model.gemm(length)[n - 1]);
      EXPECT_GE(model.gemm(length)[n], less * model.gemm(length - 1)[n]);
    }
    for (uint32_t size = 1; size <= 10; ++size)
      for (uint32_t count = 3; count * size <= 30; ++count) {
        const double cost = model.batched_gemm(length, size)[count];
        EXPECT_GE(cost, less * model.batched_gemm(length, size)[count - 1]);
        EXPECT_GE(cost, less * model.batched_gemm(length - 1, size)[count]);
        if (size > 1) {
          EXPECT_GE(cost, less * model.batched_gemm(length, size - 1)[count]);
        }
      }
  }
}

TEST(CostModel, ServesTablesOfOneCell) {
  CostTables tables = coarse();
  tables.lengths = {16};
  tables.batches = {4};
  tables.gemm_ns = {64};
  tables.counts.clear();
  tables.sizes.clear();
  tables.batched_gemm_ns.clear();
  const CostModel model(tables, 8);
  EXPECT_FALSE(model.has_batched_gemm());
  EXPECT_TRUE(CostModel(coarse(), 1).has_batched_gemm());
  EXPECT_DOUBLE_EQ(model.gemm(1)[1], 64);
  EXPECT_DOUBLE_EQ(model.gemm(32)[8], 256);
}

}  // namespace
}  // namespace itif::plan
