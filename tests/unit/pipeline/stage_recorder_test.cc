// Blocks of requests are recorded as single requests are: PlainStages is the reference.
#include "pipeline/stage_recorder.h"

#include <gtest/gtest.h>

#include "plain_stages.h"

namespace itif::pipeline::test {
namespace {

constexpr uint32_t kTenants = 5;

telemetry::StageHistograms::Set published(StageRecorder& recorder) {
  recorder.publish();
  telemetry::StageHistograms::Set set;
  recorder.all().merge_into(set);
  return set;
}

void expect_equal(StageRecorder& recorder, const PlainStages& plain) {
  for (uint32_t tenant = 0; tenant < kTenants; ++tenant) {
    StageFigures figures;
    recorder.tenants().merge_into(tenant, figures);
    const StageFigures& expected = plain.of_tenant(tenant);
    EXPECT_EQ(figures.sums.num_requests, expected.sums.num_requests);
    EXPECT_EQ(figures.sums.ns, expected.sums.ns);
    EXPECT_EQ(figures.counts, expected.counts);
    StageSums sums;
    recorder.tenants().merge_into(tenant, sums);
    EXPECT_EQ(sums.ns, expected.sums.ns);
  }
  const telemetry::StageHistograms::Set set = published(recorder);
  for (size_t s = 0; s < telemetry::kNumRequestStages; ++s) {
    const Histogram& expected = plain.all(s);
    EXPECT_EQ(set[s].count(), expected.count());
    EXPECT_EQ(set[s].min(), expected.min());
    EXPECT_EQ(set[s].max(), expected.max());
    EXPECT_DOUBLE_EQ(set[s].mean(), expected.mean());
    for (double p : {1.0, 50.0, 99.0}) EXPECT_EQ(set[s].percentile(p), expected.percentile(p));
  }
}

// Bursts end within a block, at its end, and after several blocks.
TEST(StageRecorder, BurstsOfAnySizeEqualSingleRequests) {
  for (const size_t size : {size_t{1}, StageRecorder::kBlock - 1, StageRecorder::kBlock,
                            StageRecorder::kBlock + 1, 4 * StageRecorder::kBlock}) {
    SCOPED_TRACE(size);
    StageRecorder recorder(true);
    PlainStages plain(kTenants);
    const std::vector<Answered> answered = make_bursts(20, size, kTenants, size);
    for (size_t first = 0; first < answered.size(); first += size) {
      const auto burst = std::span(answered).subspan(first, size);
      plain.record(burst);
      for (const Answered& one : burst) recorder.add(one.tenant_index, one.times);
      recorder.flush();
    }
    EXPECT_EQ(recorder.num_recorded(), answered.size());
    expect_equal(recorder, plain);
  }
}

// Times that no bucket separates, unordered points, and the last tenant of the table.
TEST(StageRecorder, ExtremeTimesEqualSingleRequests) {
  StageRecorder recorder(true);
  PlainStages plain(tenant::kMaxTenants);
  const Answered answered[] = {
      {0, {.arrival_ns = 1, .last_out_ns = uint64_t{1} << 60}},
      {0, {.arrival_ns = 5, .complete_ns = 5, .done_ns = 3, .last_out_ns = 5}},
      {tenant::kMaxTenants - 1, {.arrival_ns = 100, .complete_ns = 1'000'000, .last_out_ns = 50}}};
  plain.record(answered);
  for (const Answered& one : answered) recorder.add(one.tenant_index, one.times);
  recorder.flush();
  expect_equal(recorder, plain);
  StageFigures last;
  recorder.tenants().merge_into(tenant::kMaxTenants - 1, last);
  EXPECT_EQ(last.sums.ns, plain.of_tenant(tenant::kMaxTenants - 1).sums.ns);
  EXPECT_EQ(last.counts, plain.of_tenant(tenant::kMaxTenants - 1).counts);
}

TEST(StageRecorder, CountsRefusalsAlsoWithoutTimes) {
  StageRecorder recorder(false);
  recorder.add_expired(7);
  recorder.flush();
  const telemetry::StageHistograms::Set set = published(recorder);
  EXPECT_EQ(set[static_cast<size_t>(telemetry::Stage::kExpire)].max(), 7u);
  EXPECT_EQ(set[static_cast<size_t>(telemetry::Stage::kTotal)].count(), 0u);
  StageFigures none;
  recorder.tenants().merge_into(0, none);
  EXPECT_EQ(none.sums.num_requests, 0u);
}

}  // namespace
}  // namespace itif::pipeline::test
