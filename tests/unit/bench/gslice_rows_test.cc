// Rows of GSLICE's figures and tables, with the paper's figures beside ours.
#include "report/gslice_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "report/convergence.h"
#include "report/tables.h"

namespace itif::bench {
namespace {

class GsliceRows : public testing::Test {
 protected:
  const AddRow add = [this](Row row) { rows.push_back(std::move(row)); };
  const Row* find(const std::string& mode, const std::string& unit) const {
    const auto found = std::ranges::find_if(
        rows, [&](const Row& row) { return row.mode == mode && row.unit == unit; });
    return found == rows.end() ? nullptr : &*found;
  }
  // The cell's "value [paper]".
  std::string text(const std::string& mode, const std::string& unit) const {
    const Row* row = find(mode, unit);
    return row == nullptr ? "no row" : figure_text(row->value) + " [" + stated_text(*row) + "]";
  }

  std::vector<Row> rows;
};

TEST_F(GsliceRows, GueIsThroughputOverTheTimeOfABatch) {
  const StatedMix& stated = stated_mix("Alexnet, ResNet-50");
  add_served(add, "C1, all groups, f16", "default", Way::kDefault, {.per_s = 100, .batch_ms = 20},
             &stated);
  add_served(add, "C1, all groups, f16", "slab", Way::kSlab, {.per_s = 200, .batch_ms = 8},
             &stated);
  EXPECT_EQ(text("default", "GUE"), "5.00 [38.82]");
  EXPECT_EQ(text("slab", "GUE"), "25.00 [72.69]");
  EXPECT_EQ(text("default", "batch ms"), "20.00 []");
  EXPECT_EQ(text("slab", "batch ms"), "8.00 [at most 25.00]") << "the objective";
}

TEST_F(GsliceRows, GainsHaveThePapersRatios) {
  add_gains(add, "C2, all groups, f16", Way::kSlices,
            {.mode = "tuned slices", .gue = 5, .per_s = 8, .over_slab = 2},
            stated_mix("Alexnet, VGG-19"));
  EXPECT_EQ(text("GUE, tuned slices / default", "times"), "5.00 [7.01]");
  EXPECT_EQ(text("answers/s, tuned slices / default", "times"), "8.00 [6.00 to 13.00]");
  EXPECT_EQ(text("answers/s, tuned slices / slab", "times"), "2.00 [1.20 to 4.00]");
}

TEST_F(GsliceRows, SlabHasNoStatedThroughput) {
  add_gains(add, "vit-base, all groups, f16", Way::kSlab, {.mode = "slab", .gue = 2, .per_s = 3},
            stated_mix("ResNet-50"));
  EXPECT_EQ(text("GUE, slab / default", "times"), "2.00 [1.46]");
  EXPECT_EQ(text("answers/s, slab / default", "times"), "3.00 []");
  EXPECT_EQ(rows.size(), 2u);
}

TEST_F(GsliceRows, ComponentsHaveThePapersRatios) {
  add_component(add, "minilm-l6, f16", kComponents[0], "Alexnet", {.served = {.per_s = 10}});
  EXPECT_EQ(rows.size(), 4u) << "no ratio to itself";
  add_component(add, "minilm-l6, f16", kComponents[1], "Alexnet",
                {.served = {.per_s = 12}, .batch_over_none = 1.1, .over_none = 1.2});
  add_component(add, "minilm-l6, f16", kComponents[3], "Alexnet",
                {.served = {.per_s = 40}, .batch_over_none = 5, .over_none = 4});
  EXPECT_EQ(text("streams / none", "times"), "1.20 [1.39]");
  EXPECT_EQ(text("streams / none", "of a batch's time"), "1.10 []");
  EXPECT_EQ(text("batching / none", "of a batch's time"), "5.00 [2.00 to 3.00]");
}

TEST_F(GsliceRows, OnlyTheRiseOfTheObjectiveHasThePapersConvergence) {
  for (const char* step : {kObjectiveRises, kObjectiveFalls})
    for (const char* control : {"slab", "aimd"})
      add_convergence(add,
                      {.slo_ms = 100, .step = step, .control = control, .dtype = "f16", .ms = 80});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].name, "convergence, 100 ms, the objective rises, f16");
  EXPECT_EQ(stated_text(rows[0]), "at most 500.0");
  EXPECT_EQ(stated_text(rows[1]), "10,000");
  EXPECT_EQ(stated_text(rows[2]), "");
  EXPECT_EQ(stated_text(rows[3]), "");
  EXPECT_EQ(convergence_line(100, 4.9, 0.05).name, "figure-12c-100ms");
}

TEST_F(GsliceRows, Table1HasThePapersValuesAndRatios) {
  const StatedSharing& resnet = kStatedSharings[1];
  add_model_size(add, "minilm-l6", 45, &resnet);
  add_shared_pair(add, "minilm-l6", {kLoadTime, "ms", 120, 20}, &resnet);
  add_shared_pair(add, "minilm-l6", {kTenantMemory, "MB", 47, 1}, &resnet);
  add_shared_pair(add, "minilm-l6", {kTenantsThatFit, "tenants", 500, 1000, true}, &resnet);
  EXPECT_EQ(text("size", "MB"), "45.00 [98.00]");
  EXPECT_EQ(text("load, alone", "ms"), "120.0 [430.0]");
  EXPECT_EQ(text("load, shared", "ms"), "20.00 [89.00]");
  EXPECT_EQ(text("load, alone / shared", "times"), "6.00 [4.83]");
  EXPECT_EQ(text("memory, alone / shared", "times"), "47.00 [1.14]");
  EXPECT_EQ(text("tenants that fit, shared / alone", "times"), "2.00 [1.06]");
  EXPECT_EQ(find("load, shared", "ms")->ratio, 20.0 / 120);
  EXPECT_NE(sharing_text(resnet).find("430 and 89 ms (4.83 times as fast)"), std::string::npos)
      << sharing_text(resnet);
}

TEST_F(GsliceRows, TenantsThatShareEverythingHaveNoRatioOfMemory) {
  add_shared_pair(add, "minilm-l6", {kTenantMemory, "MB", 47, 0}, &kStatedSharings[1]);
  EXPECT_EQ(text("memory, shared", "MB"), "0.000 [805.0]");
  EXPECT_EQ(rows.size(), 2u);
  add_shared_pair(add, "minilm-l6", {kTenantMemory, "MB", 47, 0.0008}, &kStatedSharings[1]);
  EXPECT_EQ(rows.size(), 4u) << "47 MB are 58,750 times 0.8 kB";
}

TEST_F(GsliceRows, ACaseThatThePaperLacksHasNoStatedFigures) {
  add_shared_pair(add, "minilm-l6", {kLoadTime, "ms", 120, 60}, nullptr);
  EXPECT_EQ(text("load, shared", "ms"), "60.00 []");
  EXPECT_EQ(rows.size(), 2u);
}

// Sizes 1, 2, 8, 8, 8, …: the third batch is the first of three alike.
TEST(Convergence, EndsWithTheFirstOfThreeBatchesOfTheLastSize) {
  std::vector<BatchSeen> batches;
  for (uint32_t i = 0; i < 100; ++i) {
    const uint64_t begun_ns = 10'000'000 * i;
    batches.push_back({.begun_ns = begun_ns,
                       .done_ns = begun_ns + 10'000'000,
                       .num_requests = i < 52    ? 1u
                                       : i == 52 ? 2u
                                                 : 8u});
  }
  EXPECT_EQ(convergence_ms(batches, 500'000'000, 1'000'000'000), 40);
  batches[54].num_requests = 1;
  EXPECT_EQ(convergence_ms(batches, 500'000'000, 1'000'000'000), 60) << "a size that is passed";
  EXPECT_EQ(convergence_ms({}, 0, 1'000'000), 1) << "the whole time";
}

TEST(FigureText, KeepsThreeDigitsOfSmallValues) {
  EXPECT_EQ(figure_text(0.0071), "0.0071");
  EXPECT_EQ(figure_text(0.000123456), "0.000123");
  EXPECT_EQ(figure_text(0.975), "0.975");
  EXPECT_EQ(figure_text(0), "0.000");
  EXPECT_EQ(figure_text(2160136), "2,160,136");
}

}  // namespace
}  // namespace itif::bench
