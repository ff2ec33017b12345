// The profiler on the host device: its measurements and its results.
#include "runtime/cost/profiler.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "plan/make_planner.h"
#include "support/null_stream.h"
#include "support/plain_device.h"

namespace itif::runtime {
namespace {

const std::vector<backbone::GemmUse> kGemms = {{{.n = 64, .k = 32}, 3}, {{.n = 32, .k = 64}, 1}};

class ProfilerTest : public ::testing::Test {
 protected:
  ProfilerTest()
      : device_(device::open_device({.kind = "host", .num_threads = 1}).value()),
        stream_(device_->make_stream({}).value()) {}

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  SystemClock clock_;
};

TEST_F(ProfilerTest, MeasuresTablesThatPlannersAccept) {
  Profiler profiler(*device_, clock_, kGemms, "tiny",
                    {.max_rows = 100, .max_length = 40, .max_requests = 20, .max_tenants = 5});
  double progress = 0;
  while (profiler.step(*stream_)) {
    EXPECT_GT(profiler.progress(), progress);
    progress = profiler.progress();
  }
  EXPECT_EQ(profiler.progress(), 1);
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_EQ(tables->device, device_->info().description);
  EXPECT_EQ(tables->backbone, "tiny");
  EXPECT_EQ(tables->lengths, (std::vector<uint32_t>{8, 16, 32, 64}));
  EXPECT_EQ(tables->batches, (std::vector<uint32_t>{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(tables->counts, (std::vector<uint32_t>{2, 3, 4}));
  EXPECT_EQ(tables->sizes, tables->batches);
  for (const char* name : {"naive", "turbo", "itif", "joint"})
    EXPECT_TRUE(plan::make_planner(name, {.tables = &*tables})) << name;
  EXPECT_EQ(tables->range_counts, (std::vector<uint32_t>{1, 2, 3, 4}));
  EXPECT_EQ(tables->range_rows, (std::vector<uint32_t>{7, 15, 31, 63}));
  EXPECT_TRUE(tables->other_row_ns.empty());
  ASSERT_EQ(tables->shared_gemms.size(), 2u);
  EXPECT_EQ(tables->shared_gemms[0].n, 64u);
  EXPECT_EQ(tables->shared_gemms[1].k, 64u);
}

// A clock on which a sequential GEMM takes 100 ns. A concurrent one takes 40 ns, or 700 ns if it
// has the second shape.
class GemmClock final : public Clock {
 public:
  explicit GemmClock(const testing::PlainDeviceState& state) : state_(state) {}
  uint64_t now_ns() const noexcept override {
    uint64_t ns = 1;
    for (const kernels::ShapeMode& gemm : state_.gemms)
      ns += gemm.mode == kernels::GemmMode::kSequential ? 100 : gemm.n == 64 ? 40 : 700;
    return ns;
  }
  uint64_t unix_ns() const noexcept override { return now_ns(); }

 private:
  const testing::PlainDeviceState& state_;
};

TEST_F(ProfilerTest, TabulatesPlannedCallsAsTheyRun) {
  testing::PlainDevice device(2);
  const auto stream = device.make_stream({}).value();
  const GemmClock clock(device.state());
  Profiler profiler(device, clock,
                    {{{.n = 64, .k = 32}, 3}, {{.n = 32, .k = 64}, 1}, {{.n = 64, .k = 32}, 2}},
                    "tiny", {.max_rows = 32, .max_length = 8, .max_requests = 1, .max_tenants = 2});
  while (profiler.step(*stream)) {
  }
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_EQ(tables->gemm_ns, std::vector<double>{600});
  EXPECT_EQ(tables->batched_gemm_ns, std::vector<double>{3 * 40 + 700 + 2 * 40});
  ASSERT_EQ(tables->shared_gemms.size(), 2u);  // each shape once
  EXPECT_EQ(tables->shared_gemms[0].times, 5u);
  EXPECT_EQ(tables->shared_gemms[1].times, 1u);
  EXPECT_EQ(tables->range_counts, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(tables->range_rows, (std::vector<uint32_t>{7, 15, 31}));
  // Two ranges of 31 rows do not fit the workspace: their costs continue those of 7 and 15.
  EXPECT_EQ(tables->shared_gemms[0].sequential_ns, std::vector<double>(6, 100));
  EXPECT_EQ(tables->shared_gemms[0].concurrent_ns,
            (std::vector<double>{100, 100, 100, 40, 40, 40}));
  EXPECT_EQ(tables->shared_gemms[1].concurrent_ns,
            (std::vector<double>{100, 100, 100, 700, 700, 700}));
}

// A GEMM takes 50 ns and 10 ns more per row. Only ranges that fit the workspace are measured.
TEST_F(ProfilerTest, CostsBeyondTheWorkspaceContinueTheLine) {
  testing::PlainDevice device(2);
  const auto stream = device.make_stream({}).value();
  VirtualClock clock;
  device.state().on_gemm = [&](const kernels::GroupedGemm& gemm) {
    for (const kernels::RowRange& range : gemm.ranges) clock.advance_ns(50 + 10 * range.num_rows);
  };
  Profiler profiler(device, clock, {{{.n = 64, .k = 32}, 1}}, "tiny",
                    {.max_rows = 64, .max_length = 64, .max_requests = 2, .max_tenants = 4});
  while (profiler.step(*stream)) {
  }
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  const auto cost = [&](uint32_t count, uint32_t rows) {
    return plan::shared_gemm_ns(*tables, tables->shared_gemms[0].sequential_ns, count, rows);
  };
  EXPECT_EQ(cost(4, 15), 800);   // measured
  EXPECT_EQ(cost(4, 63), 2720);  // 252 rows
  EXPECT_EQ(cost(2, 40), 900);
  EXPECT_EQ(tables->gemm_ns.back(), 50 + 10 * 127)
      << "two requests of 64 tokens exceed max_rows: scaled up from measured points";
}

// On a GPU every mode is measured, with ranges of equal and of unequal rows.
TEST_F(ProfilerTest, AGpuMeasuresEveryMode) {
  using enum kernels::GemmMode;
  testing::PlainDevice device;
  device.use_gemm_modes({kSequential, kStreams, kConcurrent, kPointers});
  device.use_buckets_of(32);
  const auto stream = device.make_stream({}).value();
  VirtualClock clock;
  // A call of two equal or unequal ranges takes this long in each mode.
  const std::map<std::pair<kernels::GemmMode, bool>, uint64_t> costs = {
      {{kSequential, false}, 100}, {{kConcurrent, false}, 200}, {{kStreams, false}, 300},
      {{kPointers, false}, 400},   {{kSequential, true}, 500},  {{kStreams, true}, 600},
      {{kConcurrent, true}, 700}};
  device.state().on_gemm = [&](const kernels::GroupedGemm& gemm) {
    if (gemm.ranges.size() < 2) return clock.advance_ns(50);
    const bool is_uneven = gemm.ranges[0].num_rows != gemm.ranges[1].num_rows;
    EXPECT_EQ(gemm.ranges[1].slot, gemm.ranges[0].slot + 1) << "or no call would be strided";
    clock.advance_ns(costs.at({gemm.schedule.mode_of(gemm.n, gemm.k), is_uneven}));
  };
  uint32_t num_passes = 0;
  Profiler profiler(device, clock, {{{.n = 64, .k = 32}, 1}}, "tiny",
                    {.max_rows = 32,
                     .max_length = 8,
                     .max_requests = 2,
                     .max_tenants = 2,
                     .samples = 1,
                     .launch_pass = [&](device::Stream&, uint32_t requests, uint32_t tokens) {
                       ++num_passes;
                       clock.advance_ns(requests == 1 ? 9000 : 1000 * tokens);
                     }});
  while (profiler.step(*stream)) {
  }
  EXPECT_EQ(profiler.progress(), 1);
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_EQ(num_passes, 2u * 2u) << "one whole pass, one launched kernel by kernel, each twice";
  EXPECT_EQ(tables->launch_ns, 9000);
  EXPECT_EQ(tables->range_counts, (std::vector<uint32_t>{1, 2}));
  const plan::SharedGemm& gemm = tables->shared_gemms.at(0);
  for (const plan::SharedGemmTable& table : plan::kSharedGemmTables)
    EXPECT_EQ(plan::shared_gemm_ns(*tables, gemm.*table.costs_ns, 1, 15), 50) << table.name;
  EXPECT_EQ(plan::shared_gemm_ns(*tables, gemm.sequential_ns, 2, 15), 100);
  EXPECT_EQ(plan::shared_gemm_ns(*tables, gemm.concurrent_ns, 2, 15), 200);
  EXPECT_EQ(plan::shared_gemm_ns(*tables, gemm.streams_ns, 2, 15), 300);
  EXPECT_EQ(plan::shared_gemm_ns(*tables, gemm.pointers_ns, 2, 15), 400);
  EXPECT_EQ(plan::shared_gemm_ns(*tables, gemm.uneven_sequential_ns, 2, 15), 500);
  EXPECT_EQ(plan::shared_gemm_ns(*tables, gemm.uneven_streams_ns, 2, 15), 600);
  EXPECT_EQ(plan::shared_gemm_ns(*tables, gemm.uneven_concurrent_ns, 2, 15), 700);
  EXPECT_EQ(tables->batched_gemm_ns[0], 400) << "planned calls: slots are anywhere";
}

// ALBERT-xxlarge takes 50 ms per token on two cores with AVX2. The largest cells of its tables are
// extrapolated to hours.
TEST_F(ProfilerTest, CostsOfALargeModelOnASlowMachineAreValid) {
  testing::PlainDevice device(2);
  const auto stream = device.make_stream({}).value();
  VirtualClock clock;
  device.state().on_gemm = [&](const kernels::GroupedGemm& gemm) {
    for (const kernels::RowRange& range : gemm.ranges)
      clock.advance_ns(50'000'000 * uint64_t{range.num_rows});
  };
  Profiler profiler(device, clock, {{{.n = 8, .k = 8}, 1}}, "tiny",
                    {.max_rows = 64, .max_length = 512, .max_requests = 256, .max_tenants = 16});
  while (profiler.step(*stream)) {
  }
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_GT(tables->batched_gemm_ns.back(), 1e13);
}

// If a pass has one tenant, its layers find their shared weights in the cache. Calls of several
// tenants do not.
TEST_F(ProfilerTest, SharedLayersAreMeasuredWithWeightsInTheCache) {
  testing::PlainDevice device(2);
  const auto stream = device.make_stream({}).value();
  std::map<size_t, std::set<uint32_t>> slots;  // by number of ranges
  device.state().on_gemm = [&](const kernels::GroupedGemm& gemm) {
    for (const kernels::RowRange& range : gemm.ranges) slots[gemm.ranges.size()].insert(range.slot);
  };
  for (const uint32_t max_pass_tenants : {1u, 0u}) {
    slots.clear();
    Profiler profiler(device, clock_, {{{.n = 64, .k = 32}, 4}}, "tiny",
                      {.max_rows = 32,
                       .max_length = 8,
                       .max_requests = 4,
                       .max_tenants = 4,
                       .max_pass_tenants = max_pass_tenants});
    while (profiler.step(*stream)) {
    }
    EXPECT_EQ(slots[1].size(), max_pass_tenants == 1 ? 1 : 4);
    EXPECT_EQ(slots[2].size(), 4u);
  }
}

// A time that the device measures is more exact than the time that the host waits.
TEST_F(ProfilerTest, PrefersTheDevicesOwnTimes) {
  class Saying final : public testing::NullStream {
   public:
    Completion wait(Event) override { return {.status = {}, .device_ns = ns += 1000}; }
    uint64_t ns = 0;
  } stream;
  Profiler profiler(*device_, clock_, {{{.n = 64, .k = 32}, 1}}, "tiny",
                    {.max_rows = 8, .max_length = 8, .max_requests = 1, .max_tenants = 1});
  while (profiler.step(stream)) {
  }
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_EQ(tables->gemm_ns, std::vector<double>{2000}) << "the first sample after the warm-up";
}

// Two tenants are always measured. More are measured only while their weights fit max_weight_bytes.
TEST_F(ProfilerTest, ScalesCostsBeyondTheWeightMemoryLimit) {
  testing::PlainDevice device(2);
  const auto stream = device.make_stream({}).value();
  const GemmClock clock(device.state());
  Profiler profiler(device, clock, {{{.n = 64, .k = 32}, 1}, {{.n = 32, .k = 16}, 1}}, "tiny",
                    {.max_rows = 64,
                     .max_length = 8,
                     .max_requests = 1,
                     .max_tenants = 4,
                     .max_weight_bytes = 8192});
  while (profiler.step(*stream)) {
  }
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  ASSERT_EQ(tables->range_counts, (std::vector<uint32_t>{1, 2, 3, 4}));
  ASSERT_EQ(tables->range_rows, (std::vector<uint32_t>{7, 15, 31, 63}));
  EXPECT_EQ(
      tables->shared_gemms[0].concurrent_ns,
      (std::vector<double>{100, 100, 100, 100, 40, 40, 40, 40, 60, 60, 60, 60, 80, 80, 80, 80}));
  EXPECT_EQ(tables->shared_gemms[1].sequential_ns, std::vector<double>(16, 100));
  EXPECT_EQ(tables->batched_gemm_ns, (std::vector<double>{40 + 700, 60 + 700, 80 + 700}));
}

// In a decoder's step a tenant has few rows, and no planner is used. The vocabulary projection
// outputs f32 and is prepared for the step's rows only.
TEST_F(ProfilerTest, MeasuresStepGemmsFromOneRow) {
  Profiler profiler(*device_, clock_,
                    {{{.n = 32, .k = 32}, 2},
                     {.shape = {.n = 48, .k = 32}, .times = 2},
                     {.shape = {.n = 32, .k = 32}, .times = 3, .in_step = true},
                     {.shape = {.n = 300, .k = 32, .f32_out = true}, .in_step = true}},
                    "tiny", {.max_rows = 64, .max_step_rows = 20, .max_tenants = 5, .samples = 1});
  size_t steps = 1;
  while (profiler.step(*stream_)) ++steps;
  // For 2, 3 and 4 tenants, per shape.
  EXPECT_EQ(steps, (3u + 3u + 3u) + (2u + 1u + 1u) + (2u + 2u + 2u));
  EXPECT_EQ(profiler.progress(), 1);
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_FALSE(tables->serve_planners());
  EXPECT_EQ(tables->range_counts, (std::vector<uint32_t>{2, 3, 4}));
  EXPECT_EQ(tables->range_rows, (std::vector<uint32_t>{1, 4, 8, 16, 32}));
  ASSERT_EQ(tables->shared_gemms.size(), 3u);
  EXPECT_EQ(tables->shared_gemms[2].n, 300u);
  // A pass's shape costs the same below eight rows. Beyond the measured rows, a step's costs do not
  // fall.
  const std::vector<double>& of_pass = tables->shared_gemms[1].sequential_ns;
  EXPECT_EQ(of_pass[0], of_pass[2]);
  const std::vector<double>& of_step = tables->shared_gemms[2].sequential_ns;
  EXPECT_GE(of_step[3], of_step[1]);
  const auto planner = plan::make_planner("itif", {.tables = &*tables});
  ASSERT_FALSE(planner);
  EXPECT_NE(planner.error().message.find("a decoder's tables"), std::string::npos);
  EXPECT_TRUE(plan::make_planner("packed", {.tables = &*tables}));
}

TEST_F(ProfilerTest, ADecoderOfOneTenantNeedsNoMeasurement) {
  Profiler profiler(*device_, clock_, {{.shape = {.n = 32, .k = 32}, .in_step = true}}, "tiny",
                    {.max_step_rows = 8, .max_tenants = 1});
  EXPECT_FALSE(profiler.step(*stream_));
  EXPECT_EQ(profiler.progress(), 1);
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_TRUE(tables->shared_gemms.empty());
  EXPECT_FALSE(tables->serve_planners());
}

TEST_F(ProfilerTest, OneTenantHasNoBatchedGemms) {
  Profiler profiler(*device_, clock_, kGemms, "tiny", {.max_rows = 16, .max_tenants = 1});
  while (profiler.step(*stream_)) {
  }
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_TRUE(tables->counts.empty());
  EXPECT_EQ(tables->range_counts, (std::vector<uint32_t>{1}));
  EXPECT_EQ(tables->shared_gemms.size(), 2u);
}

// The GEMMs of the sample passes take no time of their own on this clock: each pass takes 10,000 ns
// and 20 ns more per row and token of its requests.
TEST_F(ProfilerTest, TakesTheOtherOperatorsFromWholePasses) {
  testing::PlainDevice device(2);
  const auto stream = device.make_stream({}).value();
  struct PassClock final : Clock {
    uint64_t now_ns() const noexcept override { return ns; }
    uint64_t unix_ns() const noexcept override { return ns; }
    uint64_t ns = 1;
  } clock;
  std::vector<std::pair<uint32_t, uint32_t>> launched;
  Profiler profiler(device, clock, {{{.n = 64, .k = 32}, 1}}, "tiny",
                    {.max_rows = 600,
                     .max_length = 100,
                     .max_requests = 20,
                     .max_tenants = 2,
                     .samples = 1,
                     .launch_pass = [&](device::Stream&, uint32_t requests, uint32_t tokens) {
                       launched.emplace_back(requests, tokens);
                       clock.ns += requests * tokens * (1000 + 20 * tokens);
                     }});
  while (profiler.step(*stream)) {
  }
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  // Each twice: the first one warms up. 128, the last length, is more than a request may have.
  EXPECT_EQ(launched, (std::vector<std::pair<uint32_t, uint32_t>>{
                          {20, 8}, {20, 8}, {16, 32}, {16, 32}, {5, 100}, {5, 100}}));
  ASSERT_EQ(tables->lengths, (std::vector<uint32_t>{8, 16, 32, 64, 128}));
  ASSERT_EQ(tables->other_row_ns.size(), 5u);
  const double expected[] = {1160, 1320, 1640, 1640 + 1360 / 3.0, 3000};
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(tables->other_row_ns[i], expected[i], 2) << i;
}

TEST_F(ProfilerTest, MeasuresPassesOfOneLengthIfRequestsHaveOne) {
  testing::PlainDevice device(2);
  const auto stream = device.make_stream({}).value();
  VirtualClock clock;
  std::vector<std::pair<uint32_t, uint32_t>> launched;
  Profiler profiler(device, clock, {{{.n = 64, .k = 32}, 1}}, "tiny",
                    {.max_rows = 600,
                     .max_length = 197,
                     .has_one_length = true,
                     .max_requests = 20,
                     .max_tenants = 2,
                     .samples = 1,
                     .launch_pass = [&](device::Stream&, uint32_t requests, uint32_t tokens) {
                       launched.emplace_back(requests, tokens);
                       clock.advance_ns(requests * tokens * 1000);
                     }});
  while (profiler.step(*stream)) {
  }
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_EQ(launched, (std::vector<std::pair<uint32_t, uint32_t>>{{2, 197}, {2, 197}}));
  ASSERT_EQ(tables->other_row_ns.size(), tables->lengths.size());
  for (const double ns : tables->other_row_ns) EXPECT_NEAR(ns, 1000, 2);
}

TEST_F(ProfilerTest, ReportsTheDevicesError) {
  auto small =
      device::open_device({.kind = "host", .num_threads = 1, .memory_limit_bytes = 1 << 16});
  ASSERT_TRUE(small);
  Profiler profiler(**small, clock_, {{{.n = 1024, .k = 1024}, 1}}, "large", {});
  EXPECT_FALSE(profiler.step(*stream_));
  EXPECT_FALSE(profiler.step(*stream_));
  const auto tables = profiler.finish();
  ASSERT_FALSE(tables);
  EXPECT_EQ(tables.error().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace itif::runtime
