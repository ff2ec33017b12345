// Small batches padded to graph buckets: buckets respect their limits, and padding changes no bit
// of a result.
#include "runtime/graph_buckets.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "runtime/result_bytes.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using kernels::RowRange;
using testing::Answer;
using testing::TestRequest;
using wire::ResultKind;

constexpr uint32_t kMaxBucketRows = 96;

std::vector<RowRange> runs_of(std::initializer_list<uint32_t> lengths) {
  std::vector<RowRange> runs;
  for (const uint32_t length : lengths)
    runs.push_back({0, length, static_cast<uint32_t>(runs.size())});
  return runs;
}

TEST(GraphBuckets, AreFewAndFitTheRowLimit) {
  for (const uint32_t max_rows : {0u, 15u, 16u, 96u, 200u, 512u}) {
    const GraphBuckets buckets(max_rows, 0);
    EXPECT_LE(buckets.all().size(), 80u);
    EXPECT_EQ(buckets.all().empty(), max_rows < 32);
    for (const GraphBucket& bucket : buckets.all()) {
      EXPECT_LE(bucket.num_rows(), max_rows);
      EXPECT_EQ(bucket.range_rows % 16, 0u);
      EXPECT_GE(bucket.num_ranges, 2u) << "cuBLAS is slow at one";
    }
  }
}

TEST(GraphBuckets, FindReturnsABucketThatFits) {
  const GraphBuckets buckets(512, 0);
  const auto rows_of = [&](std::initializer_list<uint32_t> lengths) {
    const GraphBucket* bucket = buckets.find(runs_of(lengths), lengths.size(), lengths.size());
    return bucket == nullptr ? std::pair(0u, 0u)
                             : std::pair(bucket->range_rows, bucket->num_ranges);
  };
  EXPECT_EQ(rows_of({1}), std::pair(16u, 2u));
  EXPECT_EQ(rows_of({16}), std::pair(16u, 2u));
  EXPECT_EQ(rows_of({17}), std::pair(16u, 2u));
  EXPECT_EQ(rows_of({128, 128, 128, 128}), std::pair(128u, 4u)) << "without padding";
  EXPECT_EQ(rows_of({512}).second * rows_of({512}).first, 512u);
  EXPECT_EQ(rows_of({513}), std::pair(0u, 0u));
  EXPECT_EQ(rows_of({120, 120, 120, 120, 120}), std::pair(0u, 0u));
  EXPECT_EQ(buckets.find({}, 0, 0), nullptr);
  // Every single request of up to 512 tokens has a bucket.
  for (uint32_t length = 1; length <= 512; ++length) {
    const GraphBucket* bucket = buckets.find(runs_of({length}), 1, 1 + length * 4 / 500);
    ASSERT_NE(bucket, nullptr) << length;
    EXPECT_LT(bucket->num_rows(), length + (length <= 64 ? 32 : 64)) << length;
  }
}

TEST(GraphBuckets, LargeBatchesHaveOnesIfTheirTenantsHaveFewRows) {
  const GraphBuckets buckets(4096, 0);
  EXPECT_LE(buckets.all().size(), 110u);
  const auto rows_of = [&](std::initializer_list<uint32_t> lengths, size_t segments) {
    const GraphBucket* bucket = buckets.find(runs_of(lengths), segments, segments);
    return bucket == nullptr ? 0u : bucket->num_rows();
  };
  EXPECT_EQ(rows_of({256, 256, 256, 256}, 16), 1024u);
  EXPECT_EQ(rows_of({500, 500, 500, 500}, 28), 2048u);
  EXPECT_EQ(rows_of({512, 512, 512, 512, 512, 512, 512, 512}, 60), 4096u);
  EXPECT_EQ(rows_of({513}, 1), 0u) << "one tenant's rows keep the device busy";
  EXPECT_EQ(rows_of({700, 400}, 16), 0u);
  EXPECT_EQ(rows_of({256, 256, 256, 256}, 65), 1280u) << "more requests";
  EXPECT_EQ(rows_of({256, 256, 256, 256}, 1024), 0u) << "many short requests";
  EXPECT_EQ(rows_of({256, 256, 256, 256}, 128), 0u) << "twice as many rows";
  EXPECT_EQ(rows_of({512, 512}, 256), 0u);
  EXPECT_EQ(rows_of({72, 72, 72, 72, 72, 72, 72, 72}, 96), 0u);
  EXPECT_EQ(rows_of({100, 100, 100, 100}, 100), 512u) << "a small batch may be padded more";
  EXPECT_EQ(GraphBuckets::of_steps(4096).max_rows(), 512u);
}

TEST(GraphBuckets, HoldOneImagePerRangeOrOneInTwo) {
  const GraphBuckets buckets(4096, 197);
  EXPECT_TRUE(GraphBuckets(4096, 577).all().empty());
  ASSERT_EQ(buckets.all().size(), 2u);
  EXPECT_EQ(buckets.find(runs_of({197}), 1, 0)->num_rows(), 2 * 112u);
  EXPECT_EQ(buckets.find(runs_of({197, 197}), 2, 0)->num_rows(), 2 * 208u);
  EXPECT_EQ(buckets.find(runs_of({394}), 2, 0)->num_rows(), 2 * 208u);
  EXPECT_EQ(buckets.find(runs_of({591}), 3, 0), nullptr);
}

TEST(GraphBuckets, StepBucketsAreUniqueAndHoldManyTenants) {
  const GraphBuckets buckets = GraphBuckets::of_steps(512);
  EXPECT_LE(buckets.all().size(), 60u);
  EXPECT_EQ(buckets.max_rows(), 512u);
  EXPECT_EQ(GraphBuckets().max_rows(), 0u);
  EXPECT_TRUE(GraphBuckets::of_steps(15).all().empty());
  std::set<std::pair<uint32_t, uint32_t>> kinds;
  for (const GraphBucket& bucket : buckets.all()) {
    EXPECT_EQ(bucket.range_rows % 8, 0u);
    kinds.emplace(bucket.range_rows, bucket.num_ranges);
  }
  EXPECT_EQ(kinds.size(), buckets.all().size());
  EXPECT_EQ(buckets.find(runs_of({4}), 0, 0)->num_rows(), 16u);
  EXPECT_EQ(buckets.find(runs_of({4, 1, 4, 6}), 0, 0)->num_rows(), 32u);
  EXPECT_EQ(buckets.find(runs_of({128}), 0, 0)->num_rows(), 128u);
}

TEST(GraphBuckets, AppendsRangesOfRunsThenUnusedRanges) {
  const GraphBucket bucket = {.range_rows = 8, .num_ranges = 5};
  std::vector<RowRange> ranges;
  EXPECT_EQ(append_ranges(&bucket, 0, 9, 3, ranges), 16u);
  EXPECT_EQ(append_ranges(&bucket, 16, 8, 1, ranges), 24u);
  EXPECT_EQ(fill_ranges(bucket, 24, ranges), 40u);
  const RowRange expected[] = {{0, 8, 3}, {8, 8, 3}, {16, 8, 1}, {24, 8, 1}, {32, 8, 1}};
  ASSERT_EQ(ranges.size(), std::size(expected));
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(ranges[i].first_row, expected[i].first_row);
    EXPECT_EQ(ranges[i].num_rows, expected[i].num_rows);
    EXPECT_EQ(ranges[i].slot, expected[i].slot);
  }
  ranges.clear();
  EXPECT_EQ(append_ranges(nullptr, 2, 9, 3, ranges), 11u);
  EXPECT_EQ(ranges.size(), 1u);
}

// A batch of up to 8 requests, ascending by tenant. Some are invalid.
std::vector<TestRequest> random_inputs(std::mt19937& random, const Group& group) {
  const auto any = [&](uint32_t most) { return static_cast<uint32_t>(random() % most); };
  std::vector<TestRequest> inputs(1 + any(8));
  for (TestRequest& input : inputs) {
    input.slot = any(6);  // 5 are loaded
    const uint32_t length = 1 + any(any(2) == 0 ? 5 : 41);
    for (uint32_t i = 0; i < length; ++i) input.ids.push_back(any(131));
    if (any(20) == 0) input.ids[any(length)] = 131;
    for (uint32_t i = 0; any(3) == 0 && i < length; ++i) input.token_types.push_back(any(2) != 0);
    if (input.token_types.size() != length) input.token_types.clear();
    const auto kind = static_cast<ResultKind>(any(7));
    const model::TenantModel* model = group.model(input.slot);
    if (model != nullptr && supports(model->head.spec, kind)) input.kind = kind;
    input.ids_per_piece = 1 + any(16);
    input.padding = any(4) == 0 ? any(4) : 0;
  }
  std::ranges::sort(inputs, {}, &TestRequest::slot);
  return inputs;
}

// The loops of PlainDevice give a row the same result at any position.
TEST(GraphBuckets, PaddingDoesNotChangeResults) {
  testing::PlainDevice device;
  testing::SmallGroup unpadded(device);
  device.use_buckets_of(kMaxBucketRows);
  testing::SmallGroup padded(device);
  ASSERT_EQ(unpadded.group->num_buckets(), 0u);
  ASSERT_GT(padded.group->num_buckets(), 0u);
  std::mt19937 random(7);
  uint32_t num_padded = 0;
  for (int turn = 0; turn < 150; ++turn) {
    const std::vector<TestRequest> inputs = random_inputs(random, *padded.group);
    const std::vector<Answer> expected = run_batch(*unpadded.group, *unpadded.stream, inputs);
    testing::TestBatch test_batch(inputs);
    Batch batch = test_batch.batch();
    ASSERT_TRUE(padded.group->forward(*padded.stream, batch));
    num_padded += batch.num_padding_rows > 0;
    const std::vector<Answer> answers = test_batch.answers();
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_EQ(answers[i].status, expected[i].status);
      EXPECT_EQ(answers[i].bytes, expected[i].bytes)
          << "turn " << turn << ", request " << i << " of tenant " << inputs[i].slot << ", kind "
          << static_cast<int>(inputs[i].kind);
    }
  }
  EXPECT_GT(num_padded, 75u);
}

}  // namespace
}  // namespace itif::runtime
