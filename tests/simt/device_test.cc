// Guarantees of the CUDA device besides its operators, as the simulator counts them: launches and
// allocations while it serves.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "device_fixture.h"
#include "runtime.h"

namespace itif::device {
namespace {

TEST_F(CudaDevice, GathersResultsIntoOneCopy) {
  gather();
  std::vector<int32_t> got(kIds);
  std::byte odd[3];
  ASSERT_TRUE(stream_->synchronize());
  const uint64_t before = simt::counts().launches;
  for (uint32_t i = 0; i < kIds; i += 8)
    stream_->copy_to_host(out_->data() + i * sizeof(int32_t), 8 * sizeof(int32_t), &got[i]);
  stream_->copy_to_host(out_->data() + 9, sizeof odd, odd);
  ASSERT_TRUE(stream_->synchronize());
  std::vector<int32_t> expected(kIds);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(got, expected);
  EXPECT_EQ(std::to_integer<int>(odd[0]) | std::to_integer<int>(odd[1]), 0);
  // Three launches: the copy of the plan, the kernel, the copy to the host.
  EXPECT_EQ(simt::counts().launches - before, 3u);
}

// A batch with the same launches as an earlier one is one launch, and reads its own data.
TEST_F(CudaDevice, ReplaysRepeatedBatchAsOneLaunch) {
  std::vector<std::unique_ptr<Buffer>> outs;
  for (int i = 0; i < 12; ++i) outs.push_back(device_->allocate(kIds * sizeof(int32_t)).value());
  const auto batch = [&](uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < kIds; ++i) ids()[i] = first + i;
    const kernels::IdPiece piece{
        .data = pages_.data(), .num_ids = count, .first_row = 0, .id_bytes = 4};
    for (const auto& out : outs)
      stream_->launch(kernels::GatherIds{.pieces = {&piece, 1},
                                         .ids = reinterpret_cast<int32_t*>(out->data()),
                                         .vocab_size = 1000});
    std::vector<int32_t> got(kIds);
    stream_->copy_to_host(outs.back()->data(), kIds * sizeof(int32_t), got.data());
    const uint64_t before = simt::counts().launches;
    EXPECT_TRUE(stream_->synchronize());
    EXPECT_EQ(got.front(), static_cast<int32_t>(first));
    EXPECT_EQ(got[count - 1], static_cast<int32_t>(first + count - 1));
    return simt::counts().launches - before;
  };
  // The plan, the launches, the copy of the results.
  const uint64_t one_by_one = batch(0, kIds);
  EXPECT_EQ(one_by_one, 1 + 13 + 1u);
  EXPECT_EQ(stream_->graphs().kept, 0u);
  // The plan, the graph, the kernel that gathers the results, their copy.
  for (uint32_t turn = 1; turn < 12; ++turn) EXPECT_EQ(batch(10 * turn, kIds), 4u);
  // The number of ids of a piece is in the plan, so the graph is the same.
  EXPECT_EQ(batch(5, kIds / 2), 4u);
  EXPECT_EQ(stream_->graphs().kept, 1u);
  EXPECT_EQ(stream_->graphs().launches, 12u);
}

// The batch has not run before its first use.
TEST_F(CudaDevice, ReplaysPreparedBatchOnFirstUse) {
  ASSERT_TRUE(device_->register_host_memory(pages_.data(), pages_.size()));
  std::vector<std::unique_ptr<Buffer>> outs;
  for (int i = 0; i < 12; ++i) outs.push_back(device_->allocate(kIds * sizeof(int32_t)).value());
  const auto launch = [&](const std::byte* data, uint32_t count) {
    const kernels::IdPiece piece{.data = data, .num_ids = count, .first_row = 0, .id_bytes = 4};
    for (const auto& out : outs)
      stream_->launch(kernels::GatherIds{.pieces = {&piece, 1},
                                         .ids = reinterpret_cast<int32_t*>(out->data()),
                                         .vocab_size = 1000});
    stream_->end_graph_segment();
  };
  const uint64_t before = simt::counts().launches;
  launch(nullptr, 0);
  ASSERT_TRUE(stream_->warm_up());
  EXPECT_EQ(simt::counts().launches, before) << "nothing runs";
  EXPECT_EQ(stream_->graphs().kept, 1u);
  for (int turn = 0; turn < 4; ++turn) {
    launch(pages_.data(), kIds);
    std::vector<int32_t> got(kIds);
    stream_->copy_to_host(outs.back()->data(), kIds * sizeof(int32_t), got.data());
    ASSERT_TRUE(stream_->synchronize());
    EXPECT_EQ(got[kIds - 1], static_cast<int32_t>(kIds - 1));
  }
  EXPECT_EQ(stream_->graphs().kept, 1u);
  EXPECT_EQ(stream_->graphs().launches, 4u);
}

// The plan, the gather, the graph of the rest, the kernel that gathers the results, their copy.
TEST_F(CudaDevice, EndInputsCostsOneLaunch) {
  std::vector<std::unique_ptr<Buffer>> outs;
  for (int i = 0; i < 12; ++i) outs.push_back(device_->allocate(kIds * sizeof(float)).value());
  const auto batch = [&](bool ends_inputs) {
    uint64_t least = UINT64_MAX;
    for (int turn = 0; turn < 8; ++turn) {
      const uint64_t before = simt::counts().launches;
      gather();
      if (ends_inputs) stream_->end_inputs();
      for (const auto& out : outs)
        stream_->launch(kernels::ToF32{
            .x = out_->data(), .out = reinterpret_cast<float*>(out->data()), .count = kIds});
      (void)gathered();
      least = std::min(least, simt::counts().launches - before);
    }
    return least;
  };
  EXPECT_EQ(batch(false), 4u);
  EXPECT_EQ(batch(true), 5u);
}

TEST_F(CudaDevice, ReportsPacketsReadBeforeBatchEnds) {
  uint32_t num_early = 0;
  for (int turn = 0; turn < 50; ++turn) {
    gather();
    stream_->end_inputs();
    std::vector<int32_t> got(kIds);
    stream_->copy_to_host(out_->data(), kIds * sizeof(int32_t), got.data());
    const Stream::Event event = stream_->record();
    while (!stream_->inputs_read(event)) {
    }
    num_early += !stream_->is_done(event);
    ASSERT_TRUE(stream_->wait(event).status);
  }
  EXPECT_GT(num_early, 10u);
}

TEST_F(CudaDevice, AllocatesNothingAfterFirstBatches) {
  for (int i = 0; i < 3; ++i) {
    gather();
    (void)gathered();
  }
  const uint64_t before = simt::counts().allocations;
  for (int i = 0; i < 10; ++i) {
    gather();
    (void)gathered();
  }
  EXPECT_EQ(simt::counts().allocations, before);
}

TEST_F(CudaDevice, StreamAllocatesForLargestBatchAtStart) {
  constexpr size_t kBytes = 3 << 20;
  const auto values = device_->allocate(kBytes).value();
  std::vector<std::byte> unregistered(kBytes), got(kBytes, std::byte{1});
  const auto allocations_of_first_batch = [&](const StreamLimits& limits) {
    const auto stream = device_->make_stream(limits).value();
    const uint64_t before = simt::counts().allocations;
    const kernels::IdPiece pieces[] = {{unregistered.data() + 1, 64, 0, 4},
                                       {unregistered.data() + kBytes - 256, 64, 64, 4},
                                       {unregistered.data(), kBytes / 4 - 128, 128, 4}};
    stream->launch(kernels::GatherIds{
        .pieces = pieces, .ids = reinterpret_cast<int32_t*>(values->data()), .vocab_size = 1});
    stream->copy_to_host(values->data(), kBytes / 2, got.data());
    stream->copy_to_host(values->data() + kBytes / 2, kBytes / 2, got.data() + kBytes / 2);
    EXPECT_TRUE(stream->synchronize());
    EXPECT_EQ(got.back(), std::byte{0});
    return simt::counts().allocations - before;
  };
  StreamLimits limits{.max_tokens = kBytes / 4, .max_segments = 64};
  EXPECT_GT(allocations_of_first_batch(limits), 0u);
  limits.result_bytes = limits.unregistered_bytes = kBytes;
  EXPECT_EQ(allocations_of_first_batch(limits), 0u);
}

// A step names few blocks but reserves room for the limit. Data behind that room keeps its address,
// and the room is not copied.
TEST_F(CudaDevice, StepReservesRoomForMaxBlocks) {
  constexpr uint32_t kBlocks = 1 << 20, kHidden = 4;
  const auto stream =
      device_->make_stream({.max_tokens = 16, .max_segments = 16, .max_blocks = kBlocks}).value();
  const std::vector<float> ones(1024, 1.0f);
  const auto memory = device_->allocate(ones.size() * sizeof(float)).value();
  const auto out = device_->allocate(2 * kHidden * sizeof(float)).value();
  ASSERT_TRUE(device_->upload(
      {reinterpret_cast<const std::byte*>(ones.data()), DType::kF32, Shape{ones.size()}},
      DType::kF32, memory->data()));
  const kernels::KvTable table{0, 1};
  const uint32_t block = 0, chosen = 0;
  const kernels::SegmentRows segment{0, 1};
  const uint64_t before = simt::counts().launches;
  stream->begin_step();
  stream->launch(kernels::CachedAttention{
      .query = memory->data(),
      .query_stride = kHidden,
      .out = out->data(),
      .tables = {&table, 1},
      .blocks = {&block, 1},
      .max_blocks = kBlocks,
      .pool = {.base = memory->data(), .num_layers = 1, .block_tokens = 16, .hidden = kHidden},
      .num_heads = 1,
      .head_size = kHidden,
      .scale = 1});
  stream->launch(kernels::PoolSegments{.x = memory->data(),
                                       .segments = {&segment, 1},
                                       .chosen = {&chosen, 1},
                                       .hidden = kHidden,
                                       .out = reinterpret_cast<float*>(out->data()) + kHidden});
  std::vector<float> got(2 * kHidden);
  stream->copy_to_host(out->data(), got.size() * sizeof(float), got.data());
  const Status done = stream->synchronize();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(got, std::vector<float>(2 * kHidden, 1.0f));
  // The plan before and after the reserved room, the operators, the kernel that gathers the
  // results, their copy.
  EXPECT_EQ(simt::counts().launches - before, 2 + 2 + 1 + 1u);
}

// Results that were staged before the memory grew are moved, and so are those of the previous
// batch.
TEST_F(CudaDevice, ReturnsResultsLargerThanLimit) {
  constexpr uint32_t kMany = 1 << 20;
  const auto many = device_->allocate(kMany * sizeof(float)).value();
  std::vector<int32_t> before(kIds), first(kIds), last(kIds);
  std::vector<float> all(kMany, 1.0f);
  const auto expect_ids = [](const std::vector<int32_t>& got) {
    EXPECT_EQ(got.front(), 0);
    EXPECT_EQ(got.back(), static_cast<int32_t>(kIds - 1));
  };
  gather();
  stream_->copy_to_host(out_->data(), kIds * sizeof(int32_t), before.data());
  const Stream::Event pending = stream_->record();
  gather();
  stream_->copy_to_host(out_->data(), kIds * sizeof(int32_t), first.data());
  gather();
  stream_->copy_to_host(many->data(), kMany * sizeof(float), all.data());
  gather();
  stream_->copy_to_host(out_->data(), kIds * sizeof(int32_t), last.data());
  const Stream::Event event = stream_->record();
  ASSERT_TRUE(stream_->wait(pending).status);
  ASSERT_TRUE(stream_->wait(event).status);
  expect_ids(before);
  expect_ids(first);
  expect_ids(last);
  EXPECT_EQ(all, std::vector<float>(kMany, 0.0f));
}

}  // namespace
}  // namespace itif::device
