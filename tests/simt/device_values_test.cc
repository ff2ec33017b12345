// Guarantees of the CUDA device besides its operators, by the values that arrive: memory read in
// place, memory copied, and replayed batches that read their own data. tests/gpu runs these on a
// GPU, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "device/stream/metered_stream.h"
#include "device_fixture.h"
#include "numbers.h"

namespace itif::device {
namespace {

// Launches run when they are waited for: data that is read in place may change until then.
TEST_F(CudaDevice, ReadsRegisteredMemoryInPlace) {
  ASSERT_TRUE(device_->register_host_memory(pages_.data(), pages_.size()));
  gather();
  ids()[5] = 77;
  EXPECT_EQ(gathered()[5], 77);
}

TEST_F(CudaDevice, CopiesUnregisteredMemory) {
  gather();
  ids()[5] = 77;
  EXPECT_EQ(gathered()[5], 5);
}

TEST_F(CudaDevice, RegistersWholePagesOnce) {
  std::vector<std::byte> memory(10 * 4096);
  for (const auto& [offset, bytes] :
       {std::pair<size_t, size_t>{4096, 100}, {5000, 9000}, {0, 40960}, {100, 1}})
    EXPECT_TRUE(device_->register_host_memory(memory.data() + offset, bytes));
}

// The shared memory that one group's kernel needs does not limit the other's.
TEST_F(CudaDevice, ServesLargeAndSmallImagesConcurrently) {
  constexpr uint32_t kPatch = 16;
  struct Group {
    uint32_t width = 0;
    std::vector<std::byte> pixels = {};
    std::unique_ptr<Buffer> out = {};
    std::unique_ptr<Stream> stream = {};
    std::vector<float> got = {};
  };
  std::array<Group, 2> groups{Group{.width = 384}, Group{.width = 224}};
  for (Group& group : groups) {
    const uint32_t values = kPatch * group.width;
    for (uint32_t i = 0; i < values; ++i) group.pixels.push_back(static_cast<std::byte>(i % 251));
    group.out = device_->allocate(values * sizeof(float)).value();
    group.stream = device_->make_stream({.max_tokens = 256, .max_segments = 64}).value();
    group.got.resize(values);
    const BytePiece piece{group.pixels.data(), values};
    const kernels::ImagePixels image{.pieces = {&piece, 1}};
    group.stream->launch(kernels::GatherPatches{.images = {&image, 1},
                                                .height = kPatch,
                                                .width = group.width,
                                                .channels = 1,
                                                .patch = kPatch,
                                                .out = group.out->data()});
    group.stream->copy_to_host(group.out->data(), values * sizeof(float), group.got.data());
  }
  for (Group& group : groups) {
    SCOPED_TRACE(group.width);
    const Status done = group.stream->synchronize();
    ASSERT_TRUE(done) << done.error().message;
    for (uint32_t i = 0; i < group.got.size(); ++i) {
      const uint32_t x = i / (kPatch * kPatch) * kPatch + i % kPatch, y = i / kPatch % kPatch;
      ASSERT_EQ(group.got[i], static_cast<float>((y * group.width + x) % 251)) << i;
    }
  }
}

// Ten products of the same values and of some tenants' weights: enough launches for a graph.
class Products : public CudaDevice {
 protected:
  static constexpr uint32_t kDepth = 64, kLaunches = 10;

  void prepare(uint32_t width, uint32_t rows = 64, uint32_t tenants = 2) {
    width_ = width;
    rows_ = rows;
    const size_t count = size_t{rows + tenants * width} * kDepth;
    memory_ = device_->allocate(count * sizeof(float)).value();
    upload_numbers(*device_, memory_->data(), count);
    prepared_ = device_->prepare({.n = width, .k = kDepth, .has_bias = false}, rows).value();
    for (uint32_t i = 0; i < kLaunches; ++i)
      outs_.push_back(device_->allocate(rows * width * sizeof(float)).value());
  }
  std::vector<float> run(const std::vector<kernels::RowRange>& ranges) {
    return run(*stream_, ranges, kernels::GemmMode::kConcurrent);
  }
  std::vector<float> run(Stream& stream, const std::vector<kernels::RowRange>& ranges,
                         const kernels::GemmSchedule& schedule) {
    for (const auto& out : outs_)
      stream.launch(
          kernels::GroupedGemm{.a = memory_->data(),
                               .weights = {memory_->data(), width_ * kDepth * sizeof(float)},
                               .bias = {},
                               .out = out->data(),
                               .n = width_,
                               .k = kDepth,
                               .ranges = ranges,
                               .schedule = schedule,
                               .prepared = prepared_.get()});
    std::vector<float> got(rows_ * width_);
    stream.copy_to_host(outs_.back()->data(), got.size() * sizeof(float), got.data());
    EXPECT_TRUE(stream.synchronize());
    return got;
  }

 private:
  uint32_t width_ = 0, rows_ = 0;
  std::unique_ptr<Buffer> memory_;
  GemmHandle prepared_;
  std::vector<std::unique_ptr<Buffer>> outs_;
};

// A graph keeps the sizes of a grouped product from its capture. It does not read sizes when it is
// replayed.
TEST_F(Products, GraphsKeepSizesOfUnequalRanges) {
  prepare(64);
  const auto first = run({{0, 20, 0}, {20, 44, 1}});
  EXPECT_EQ(run({{0, 20, 0}, {20, 44, 1}}), first) << "captured";
  const auto other = run({{0, 50, 0}, {50, 14, 1}});
  EXPECT_NE(other, first);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(run({{0, 20, 0}, {20, 44, 1}}), first);
    EXPECT_EQ(run({{0, 50, 0}, {50, 14, 1}}), other);
  }
  EXPECT_EQ(stream_->graphs().kept, 2u);
}

// Regression: above the rows of graph buckets, calls hold addresses of weights. A graph key without
// the ranges of such calls would answer one tenant with another tenant's weights.
TEST_F(Products, GraphsOfLargeBatchesDependOnTheirTenants) {
  prepare(16, 1024, 5);
  const auto plain = device_->make_stream({.max_tokens = 1024, .max_segments = 8}).value();
  plain->use_graphs(false);
  const std::vector<kernels::GemmCall> planned = {{1}, {2}};
  const kernels::GemmSchedule schedules[] = {
      kernels::GemmMode::kSequential, kernels::GemmMode::kStreams,  // each range alone
      kernels::GemmMode::kConcurrent,                               // strided
      kernels::GemmMode::kPointers, kernels::GemmSchedule(planned)};
  for (const kernels::GemmSchedule& schedule : schedules) {
    const auto stream = device_->make_stream({.max_tokens = 1024, .max_segments = 8}).value();
    for (int turn = 0; turn < 3; ++turn)
      for (uint32_t slot = 0; slot < 3; ++slot) {
        std::vector<kernels::RowRange> ranges = {{0, 256, slot}};
        ranges.push_back({256, 256, slot + 1});
        ranges.push_back({512, 256, slot + 2});
        ASSERT_EQ(run(*stream, ranges, schedule), run(*plain, ranges, schedule))
            << "schedule " << &schedule - schedules << ", turn " << turn << ", slot " << slot;
      }
    // Only calls by pointers find their tenants in plan memory, which one graph can serve.
    const bool by_pointers = schedule.mode_of(16, kDepth) == kernels::GemmMode::kPointers;
    EXPECT_EQ(stream->graphs().kept, by_pointers ? 1u : 3u);
    EXPECT_GE(stream->graphs().launches, 3u);
  }
}

// cuBLAS assumes that operands given by pointers are aligned. Rows of an odd vocabulary are not,
// but the ranges of a graph bucket are.
TEST_F(Products, TenantsShareGraphOfOddWidthIfRangesAreAligned) {
  prepare(37);
  const auto first = run({{0, 8, 0}, {8, 8, 1}});
  const auto other = run({{0, 8, 1}, {8, 8, 0}});
  EXPECT_NE(other, first);
  EXPECT_EQ(run({{0, 8, 0}, {8, 8, 1}}), first);
  EXPECT_EQ(stream_->graphs().kept, 1u);
  EXPECT_EQ(stream_->graphs().launches, 2u);
  // Unaligned ranges run sequentially instead, and each launch names its tenant.
  const auto unaligned = run({{0, 7, 0}, {7, 9, 1}});
  for (int turn = 0; turn < 2; ++turn) run({{0, 7, 1}, {7, 9, 0}});
  EXPECT_EQ(stream_->graphs().kept, 2u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 7 * 37, unaligned.begin()));
}

// More than a grid's second and third dimensions can count.
constexpr uint32_t kMany = 65'537;

TEST_F(CudaDevice, ReturnsMoreResultsThanGridHeight) {
  const auto stream = device_->make_stream({.max_tokens = kMany, .max_segments = 64}).value();
  gather();
  (void)gathered();
  std::vector<int32_t> got(kMany, -1);
  for (uint32_t i = 0; i < kMany; ++i)
    stream->copy_to_host(out_->data() + i % kIds * sizeof(int32_t), sizeof(int32_t), &got[i]);
  const Status done = stream->synchronize();
  ASSERT_TRUE(done) << done.error().message;
  for (uint32_t i = 0; i < kMany; ++i) ASSERT_EQ(got[i], static_cast<int32_t>(i % kIds)) << i;
}

// Capturing succeeds only if the launches are valid.
TEST_F(CudaDevice, GathersMoreImagesThanGridHeight) {
  const auto stream = device_->make_stream({.max_tokens = kMany, .max_segments = 4096}).value();
  const std::vector<kernels::ImagePixels> images(kMany);
  for (int i = 0; i < 12; ++i)
    stream->launch(kernels::GatherPatches{
        .images = images, .height = 1, .width = 1, .channels = 1, .patch = 1, .out = out_->data()});
  const Status ready = stream->warm_up();
  ASSERT_TRUE(ready) << ready.error().message;
  EXPECT_EQ(stream->graphs().kept, 1u);
}

// A copy of results brings the values from before a later launch overwrites them.
TEST_F(CudaDevice, CopiesAreOrderedWithLaunches) {
  gather();
  std::vector<int32_t> first(kIds), second(kIds);
  stream_->copy_to_host(out_->data(), kIds * sizeof(int32_t), first.data());
  for (uint32_t i = 0; i < kIds; ++i) ids()[i] = 500 + i;
  gather();
  stream_->copy_to_host(out_->data(), kIds * sizeof(int32_t), second.data());
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_EQ(first[3], 3);
  EXPECT_EQ(second[3], 503);
}

// Packets and plan belong to the new batch, while the launches are a replayed graph.
TEST_F(CudaDevice, ReplayedBatchReadsItsOwnData) {
  std::vector<std::unique_ptr<Buffer>> outs;
  for (int i = 0; i < 12; ++i) outs.push_back(device_->allocate(kIds * sizeof(int32_t)).value());
  ASSERT_TRUE(device_->register_host_memory(pages_.data(), pages_.size()));
  for (uint32_t turn = 0; turn < 12; ++turn) {
    SCOPED_TRACE(turn);
    const uint32_t num_ids = kIds - turn % 5;
    uint32_t* const packet = ids() + 64 * turn;
    for (uint32_t i = 0; i < num_ids; ++i) packet[i] = 10 * turn + i;
    const kernels::IdPiece piece{.data = reinterpret_cast<const std::byte*>(packet),
                                 .num_ids = num_ids,
                                 .first_row = 0,
                                 .id_bytes = 4};
    for (const auto& out : outs)
      stream_->launch(kernels::GatherIds{.pieces = {&piece, 1},
                                         .ids = reinterpret_cast<int32_t*>(out->data()),
                                         .vocab_size = 1000});
    std::vector<std::vector<int32_t>> got(outs.size(), std::vector<int32_t>(num_ids));
    for (size_t i = 0; i < outs.size(); ++i)
      stream_->copy_to_host(outs[i]->data(), num_ids * sizeof(int32_t), got[i].data());
    ASSERT_TRUE(stream_->synchronize());
    std::vector<int32_t> expected(num_ids);
    std::iota(expected.begin(), expected.end(), static_cast<int32_t>(10 * turn));
    for (const std::vector<int32_t>& one : got) EXPECT_EQ(one, expected);
  }
}

// A packet that is overwritten too early would arrive overwritten. Two batches are in flight, each
// with its own packets, and the launches after their gathers are a graph.
TEST_F(CudaDevice, PacketsMayBeOverwrittenAfterInputsRead) {
  ASSERT_TRUE(device_->register_host_memory(pages_.data(), pages_.size()));
  struct Batch {
    uint32_t* ids = nullptr;
    std::vector<int32_t> got = std::vector<int32_t>(kIds);
    Stream::Event event = 0;
    int32_t first = 0;
    bool was_read = false;
  };
  std::array<Batch, 2> batches;
  batches[0].ids = ids();
  batches[1].ids = ids() + kIds;
  std::vector<std::unique_ptr<Buffer>> copies;
  for (int i = 0; i < 10; ++i) copies.push_back(device_->allocate(kIds * sizeof(float)).value());
  const auto launch = [&](Batch& batch, int32_t first) {
    batch.first = first;
    batch.was_read = false;
    for (uint32_t i = 0; i < kIds; ++i) batch.ids[i] = static_cast<uint32_t>(first) + i;
    const kernels::IdPiece piece{reinterpret_cast<const std::byte*>(batch.ids), kIds, 0, 4};
    stream_->launch(kernels::GatherIds{.pieces = {&piece, 1},
                                       .ids = reinterpret_cast<int32_t*>(out_->data()),
                                       .vocab_size = 1000});
    stream_->end_inputs();
    const std::byte* from = out_->data();
    for (const auto& copy : copies) {
      stream_->launch(
          kernels::ToF32{.x = from, .out = reinterpret_cast<float*>(copy->data()), .count = kIds});
      from = copy->data();
    }
    stream_->copy_to_host(from, kIds * sizeof(int32_t), batch.got.data());
    batch.event = stream_->record();
  };
  const auto ask = [&](Batch& batch) {
    if (batch.was_read || !stream_->inputs_read(batch.event)) return;
    batch.was_read = true;
    std::fill_n(batch.ids, kIds, 999u);
  };
  launch(batches[0], 0);
  for (int32_t turn = 1; turn < 100; ++turn) {
    Batch &older = batches[(turn - 1) % 2], &newer = batches[turn % 2];
    launch(newer, turn);
    for (int asked = 0; asked < turn % 5; ++asked) {
      ask(older);
      ask(newer);
    }
    while (!older.was_read) ask(older);
    ASSERT_TRUE(stream_->wait(older.event).status) << "polling inputs_read() is not an error";
    std::vector<int32_t> expected(kIds);
    std::iota(expected.begin(), expected.end(), older.first);
    ASSERT_EQ(older.got, expected) << turn;
  }
  ASSERT_TRUE(stream_->wait(batches[1].event).status);
}

// A batch's time excludes launches before it and earlier uses of its events.
TEST_F(CudaDevice, ChargesBatchForItsOwnTime) {
  using Time = std::chrono::steady_clock;
  std::vector<int32_t> got(kIds);
  const auto record = [&](int num_launches) {
    for (int i = 0; i < num_launches; ++i) gather();
    stream_->copy_to_host(out_->data(), kIds * sizeof(int32_t), got.data());
    return stream_->record();
  };
  for (int turn = 0; turn < 10; ++turn) {
    SCOPED_TRACE(turn);
    const auto start = Time::now();
    const Stream::Event first = record(200), second = record(1);
    const Stream::Completion longer = stream_->wait(first), shorter = stream_->wait(second);
    const auto wall_ns =
        static_cast<uint64_t>(std::chrono::nanoseconds(Time::now() - start).count());
    ASSERT_TRUE(longer.status && shorter.status);
    EXPECT_GT(longer.device_ns, 0u);
    EXPECT_GT(shorter.device_ns, 0u);
    EXPECT_LE(longer.device_ns + shorter.device_ns, wall_ns + 2000)
        << "a GPU's clock counts by half a microsecond";
    const Stream::Completion nothing = stream_->wait(stream_->record());
    ASSERT_TRUE(nothing.status);
    EXPECT_EQ(nothing.device_ns, 0u);
  }
}

// Separately launched operators compute the same: a bias that LayerNorm would fuse is added after
// its GEMM.
TEST_F(CudaDevice, TimesOperatorsSeparately) {
  constexpr uint32_t kSize = 64;
  const auto memory = device_->allocate(2 * kSize * kSize * sizeof(float)).value();
  upload_numbers(*device_, memory->data(), 2 * kSize * kSize);
  const kernels::Slab weights{memory->data(), 0};
  const auto prepared = device_->prepare({.n = kSize, .k = kSize}, kSize).value();
  const auto product = device_->allocate(kSize * kSize * sizeof(float)).value();
  const auto out = device_->allocate(kSize * kSize * sizeof(float)).value();
  std::vector<kernels::RowRange> ranges;  // sequential: enough launches for a graph
  for (uint32_t row = 0; row < kSize; row += 8) ranges.push_back({row, 8, 0});
  const auto run = [&](Stream& stream) {
    stream.launch(kernels::GroupedGemm{.a = memory->data(),
                                       .weights = weights,
                                       .bias = weights,
                                       .out = product->data(),
                                       .n = kSize,
                                       .k = kSize,
                                       .ranges = ranges,
                                       .prepared = prepared.get()});
    stream.launch(
        kernels::ResidualLayerNorm{.x = product->data(),
                                   .residual = memory->data() + kSize * kSize * sizeof(float),
                                   .gamma = weights,
                                   .beta = weights,
                                   .hidden = kSize,
                                   .ranges = ranges,
                                   .out = out->data()});
    std::vector<float> got(kSize * kSize);
    stream.copy_to_host(out->data(), got.size() * sizeof(float), got.data());
    EXPECT_TRUE(stream.synchronize());
    return got;
  };
  const std::vector<float> expected = run(*stream_);
  const SystemClock clock;
  MeteredStream metered(std::move(stream_), clock, MeteredStream::Times::kOnDevice);
  for (int turn = 0; turn < 12; ++turn) {
    const std::vector<float> got = run(metered);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-3) << i;
  }
  for (const char* name : {"gemm", "residual_layer_norm"}) {
    EXPECT_EQ(metered.of(name).launches, name == std::string_view("gemm") ? 12 * 8u : 12u);
    EXPECT_GT(metered.of(name).device_ns, 0u);
  }
  EXPECT_EQ(metered.graphs().kept, 0u);
}

// A batch whose results need more memory is submitted in two steps.
TEST_F(CudaDevice, BatchTimeStartsWithFirstLaunch) {
  constexpr uint32_t kMuch = 1 << 20;
  const auto much = device_->allocate(kMuch * sizeof(float)).value();
  std::vector<float> got(kMuch);
  gather();
  stream_->copy_to_host(much->data(), kMuch * sizeof(float), got.data());
  gather();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Stream::Completion done = stream_->wait(stream_->record());
  ASSERT_TRUE(done.status);
  EXPECT_GE(done.device_ns, 19'000'000u);
}

// Copies go to memory of any alignment, with any length.
TEST_F(CudaDevice, CopiesResultsOfAnyLengthAndAlignment) {
  for (uint32_t i = 0; i < kIds; ++i) ids()[i] = 0x01010101u * (i + 1);  // no byte is 0
  const kernels::IdPiece piece{
      .data = pages_.data(), .num_ids = kIds, .first_row = 0, .id_bytes = 4};
  stream_->launch(kernels::GatherIds{.pieces = {&piece, 1},
                                     .ids = reinterpret_cast<int32_t*>(out_->data()),
                                     .vocab_size = INT32_MAX});
  constexpr size_t kMaxBytes = kIds * sizeof(int32_t);
  std::vector<std::vector<std::byte>> got;
  for (size_t bytes = 1; bytes <= kMaxBytes; bytes += 1 + bytes / 3) got.emplace_back(bytes + 1);
  for (std::vector<std::byte>& one : got)
    stream_->copy_to_host(out_->data() + kMaxBytes - one.size() + 1, one.size() - 1,
                          one.data() + 1);
  ASSERT_TRUE(stream_->synchronize());
  const auto* expected = reinterpret_cast<const std::byte*>(ids());
  for (const std::vector<std::byte>& one : got)
    EXPECT_EQ(std::memcmp(one.data() + 1, expected + kMaxBytes - one.size() + 1, one.size() - 1), 0)
        << one.size() - 1;
}

}  // namespace
}  // namespace itif::device
