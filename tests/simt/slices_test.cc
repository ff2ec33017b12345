// The slices of a GPU: where groups' launches run, moves between two batches, and what takes the
// place of green contexts.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "device/cuda/device.h"
#include "runtime.h"

namespace itif::device {
namespace {

// A chip of 132 multiprocessors, as an H200 has: 16 partitions of 8, and 4 in none.
constexpr simt::DeviceOptions kHopper = {.num_multiprocessors = 132, .least_partition = 8};

// A group's stream with its data.
class Group {
 public:
  static constexpr uint32_t kRows = 32, kDepth = 64, kWidth = 24, kLaunches = 10;

  Group(Device& device, double percent)
      : stream_(device
                    .make_stream({.max_tokens = kRows, .max_segments = 8},
                                 {.share = {.percent = percent}})
                    .value()) {
    std::vector<float> numbers((kRows + kWidth) * kDepth);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 37 % 101) - 50;
    numbers_ = device.allocate(numbers.size() * sizeof(float)).value();
    const TensorView view{reinterpret_cast<const std::byte*>(numbers.data()), DType::kF32,
                          Shape{numbers.size()}};
    EXPECT_TRUE(device.upload(view, DType::kF32, numbers_->data()));
    bias_ = device.allocate(kWidth * sizeof(float)).value();
    prepared_ = device
                    .prepare({.n = kWidth,
                              .k = kDepth,
                              .activation = kernels::Activation::kRelu,
                              .has_bias = true},
                             kRows)
                    .value();
    out_ = device.allocate(kRows * kWidth * sizeof(float)).value();
  }
  Stream& stream() { return *stream_; }
  // Launches a batch of `rows` rows: GEMMs with an epilogue, whose ranges use several streams.
  void launch(uint32_t rows) {
    launch_without_results(rows);
    got_.assign(rows * kWidth, -1);
    stream_->copy_to_host(out_->data(), got_.size() * sizeof(float), got_.data());
  }
  void launch_without_results(uint32_t rows) {
    rows_ = rows;
    const uint32_t half = rows / 2;
    const std::vector<kernels::RowRange> ranges = {{0, half, 0}, {half, rows - half, 0}};
    for (uint32_t i = 0; i < kLaunches; ++i)
      stream_->launch(
          kernels::GroupedGemm{.a = numbers_->data(),
                               .weights = {numbers_->data() + kRows * kDepth * sizeof(float), 0},
                               .bias = {bias_->data(), 0},
                               .out = out_->data(),
                               .n = kWidth,
                               .k = kDepth,
                               .activation = kernels::Activation::kRelu,
                               .ranges = ranges,
                               .schedule = kernels::GemmMode::kStreams,
                               .prepared = prepared_.get()});
  }
  // Runs a batch and returns its results.
  std::vector<float> run(uint32_t rows) {
    launch(rows);
    EXPECT_TRUE(stream_->synchronize());
    return got_;
  }
  void expect_right(const std::vector<float>& got) const {
    std::vector<float> x((kRows + kWidth) * kDepth);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) - 50;
    for (uint32_t row = 0; row < rows_; ++row)
      for (uint32_t column = 0; column < kWidth; ++column) {
        float sum = 0;
        for (uint32_t k = 0; k < kDepth; ++k)
          sum += x[row * kDepth + k] * x[(kRows + column) * kDepth + k];
        ASSERT_EQ(got[row * kWidth + column], std::max(0.0f, sum)) << row << ", " << column;
      }
  }

 private:
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> numbers_, bias_, out_;
  GemmHandle prepared_;
  uint32_t rows_ = 0;
  std::vector<float> got_;
};

class Slices : public ::testing::Test {
 protected:
  Slices() { open(kHopper); }
  ~Slices() override {
    device_.reset();
    simt::set_device({});
  }
  Status open(const simt::DeviceOptions& machine, const std::string& slices = "auto") {
    device_.reset();
    simt::set_device(machine);
    auto opened = open_cuda_device({.kind = "cuda", .dtype = "f32", .slices = slices});
    if (!opened) return std::unexpected(opened.error());
    device_ = std::move(*opened);
    return {};
  }
  // The places of a batch's launches and copies.
  struct Places {
    simt::Multiprocessors multiprocessors;
    std::optional<int> priority;
    size_t num = 0;  // different ones
  };
  static Places places_of(Group& group, uint32_t rows) {
    std::vector<simt::LaunchedOn> before = simt::launched_on();
    group.expect_right(group.run(rows));
    Places places;
    for (const simt::LaunchedOn& now : simt::launched_on()) {
      uint64_t earlier = 0;
      for (const simt::LaunchedOn& one : before)
        if (one.multiprocessors == now.multiprocessors && one.priority == now.priority)
          earlier = one.launches;
      if (now.launches == earlier) continue;
      places.multiprocessors |= now.multiprocessors;
      places.priority = now.priority;
      ++places.num;
    }
    return places;
  }

  std::unique_ptr<Device> device_;
};

TEST_F(Slices, AreGreenContextsInEightSteps) {
  EXPECT_EQ(device_->info().slices, "green-contexts");
  EXPECT_EQ(device_->info().slice_steps, 8u);
  EXPECT_EQ(device_->info().division, Division::kProcessors);
}

TEST_F(Slices, AllOfAGroupsLaunchesRunOnItsSlice) {
  Group a(*device_, 25), b(*device_, 75);
  const Places of_a = places_of(a, 32), of_b = places_of(b, 32);
  EXPECT_EQ(of_a.num, 1u) << "its launches, its GEMMs on other streams and its copies";
  EXPECT_EQ(of_b.num, 1u);
  EXPECT_EQ(of_a.multiprocessors.count(), 32u);
  EXPECT_EQ(of_b.multiprocessors.count(), 96u);
  EXPECT_TRUE((of_a.multiprocessors & of_b.multiprocessors).none());
  EXPECT_EQ(a.stream().slice().processors, 32u);
}

TEST_F(Slices, AStreamWithoutAShareUsesTheWholeDevice) {
  Group all(*device_, 0), half(*device_, 50);
  EXPECT_TRUE(places_of(all, 32).multiprocessors.none());
  EXPECT_EQ(places_of(half, 32).multiprocessors.count(), 64u);
}

TEST_F(Slices, ALoneGroupCanHaveTheWholeDevice) {
  Group all(*device_, 100);
  EXPECT_TRUE(places_of(all, 32).multiprocessors.none());
  EXPECT_EQ(all.stream().slice().switches, 0u);
}

// Two to four groups, resized while the others run.
TEST_F(Slices, GroupsOfADeviceNeverOverlap) {
  const std::vector<std::vector<double>> all = {
      {50, 50}, {10, 90}, {30, 40, 30}, {90, 5, 5}, {25, 25, 25, 25}, {1, 1, 1, 97}, {100, 100}};
  for (const std::vector<double>& percents : all) {
    std::vector<std::unique_ptr<Group>> groups;
    for (size_t i = 0; i < percents.size(); ++i)
      groups.push_back(std::make_unique<Group>(*device_, 100.0 / percents.size()));
    for (size_t i = 0; i < percents.size(); ++i) groups[i]->stream().set_percent(percents[i]);
    simt::Multiprocessors used;
    for (const auto& group : groups) {
      const Places places = places_of(*group, 16);
      EXPECT_EQ(places.num, 1u);
      EXPECT_GE(places.multiprocessors.count(), 16u);
      EXPECT_TRUE((used & places.multiprocessors).none());
      used |= places.multiprocessors;
    }
    EXPECT_EQ(used.count(), 128u) << "all partitions are in use";
  }
}

TEST_F(Slices, AGroupThatGoesLeavesItsSliceToALaterOne) {
  Group stays(*device_, 50);
  for (int i = 0; i < 3; ++i) {
    Group goes(*device_, 50);
    EXPECT_EQ(places_of(goes, 16).multiprocessors.count(), 64u);
    EXPECT_EQ(places_of(stays, 16).multiprocessors.count(), 64u);
  }
}

// A batch reads the plan memory and writes the results of the one before it.
TEST_F(Slices, BatchesKeepTheirOrderAcrossMoves) {
  Group a(*device_, 50), b(*device_, 50);
  for (uint32_t turn = 0; turn < 40; ++turn) {
    a.stream().set_percent(turn % 2 == 0 ? 10 : 80);
    a.launch(8 + turn % 3 * 8);
    const Stream::Event first = a.stream().record();
    b.expect_right(b.run(24));
    a.stream().set_percent(turn % 2 == 0 ? 60 : 20);
    EXPECT_TRUE(a.stream().wait(first).status);
    a.expect_right(a.run(32));
  }
  EXPECT_GE(a.stream().slice().switches, 79u);
}

// Adds to a number in each batch.
class Counter {
 public:
  static constexpr uint32_t kWidth = 64, kLaunches = 10;  // enough for a graph

  Counter(Device& device, double percent)
      : stream_(
            device
                .make_stream({.max_tokens = 8, .max_segments = 8}, {.share = {.percent = percent}})
                .value()),
        number_(device.allocate(kWidth * sizeof(float)).value()),
        one_(device.allocate(kWidth * sizeof(float)).value()) {
    const std::vector<float> ones(kWidth, 1);
    const TensorView view{reinterpret_cast<const std::byte*>(ones.data()), DType::kF32,
                          Shape{kWidth}};
    EXPECT_TRUE(device.upload(view, DType::kF32, one_->data()));
  }
  Stream& stream() { return *stream_; }
  // Adds kLaunches, and copies the sum to `target`.
  Stream::Event add(float& target) {
    const kernels::RowRange row = {0, 1, 0};
    for (uint32_t i = 0; i < kLaunches; ++i)
      stream_->launch(kernels::BiasActivation{
          .x = number_->data(), .bias = {one_->data(), 0}, .width = kWidth, .ranges = {&row, 1}});
    stream_->copy_to_host(number_->data(), sizeof(float), &target);
    return stream_->record();
  }

 private:
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> number_, one_;
};

// Each batch reads what the one before it has written, which is still in flight.
TEST_F(Slices, ABatchOnANewSliceFollowsTheOneBeforeIt) {
  Counter a(*device_, 30);
  std::vector<float> sums(60, -1);
  Stream::Event last = 0;
  for (size_t turn = 0; turn < sums.size(); ++turn) {
    a.stream().set_percent(turn % 2 == 0 ? 90 : 30);
    const Stream::Event event = a.add(sums[turn]);
    if (turn > 0) {
      EXPECT_TRUE(a.stream().wait(last).status);
    }
    last = event;
  }
  EXPECT_TRUE(a.stream().wait(last).status);
  for (size_t turn = 0; turn < sums.size(); ++turn)
    ASSERT_EQ(sums[turn], static_cast<float>((turn + 1) * Counter::kLaunches)) << turn;
  EXPECT_EQ(a.stream().slice().switches, sums.size());
  EXPECT_EQ(a.stream().graphs().kept, 2u) << "equal launches have a graph on each slice";
}

// Launch by launch: most of a batch can run before the machine ends the one before it.
TEST_F(Slices, LaunchesOnANewSliceFollowAllOnTheFormerOne) {
  Counter a(*device_, 30);
  a.stream().use_graphs(false);
  std::vector<float> sums(300, -1);
  Stream::Event last = 0;
  for (size_t turn = 0; turn < sums.size(); ++turn) {
    a.stream().set_percent(turn % 2 == 0 ? 90 : 30);
    const Stream::Event event = a.add(sums[turn]);
    if (turn > 0) {
      EXPECT_TRUE(a.stream().wait(last).status);
    }
    last = event;
  }
  EXPECT_TRUE(a.stream().wait(last).status);
  for (size_t turn = 0; turn < sums.size(); ++turn)
    ASSERT_EQ(sums[turn], static_cast<float>((turn + 1) * Counter::kLaunches)) << turn;
}

TEST_F(Slices, EqualLaunchesReplayOnTheirOwnSlice) {
  Counter a(*device_, 30);
  const auto launches = [](size_t multiprocessors) {
    uint64_t sum = 0;
    for (const simt::LaunchedOn& one : simt::launched_on())
      if (one.multiprocessors.count() == multiprocessors) sum += one.launches;
    return sum;
  };
  for (int turn = 0; turn < 8; ++turn) {
    a.stream().set_percent(turn % 2 == 0 ? 25 : 75);
    const uint64_t small = launches(32), large = launches(96);
    float sum = 0;
    EXPECT_TRUE(a.stream().wait(a.add(sum)).status);
    EXPECT_EQ(launches(32) > small, turn % 2 == 0) << turn;
    EXPECT_EQ(launches(96) > large, turn % 2 == 1) << turn;
  }
  EXPECT_GE(a.stream().graphs().launches, 4u);
}

// A graph runs where it was captured. Each slice has its own, which are kept.
TEST_F(Slices, GraphsRunOnTheSliceOfTheBatch) {
  Group a(*device_, 25);
  for (int turn = 0; turn < 3; ++turn)
    for (const double percent : {25.0, 50.0}) {
      a.stream().set_percent(percent);
      for (int i = 0; i < 4; ++i) {
        const Places places = places_of(a, 32);
        EXPECT_EQ(places.num, 1u);
        EXPECT_EQ(places.multiprocessors.count(), percent == 25 ? 32u : 64u);
      }
    }
  EXPECT_EQ(a.stream().graphs().kept, 2u);
  EXPECT_GE(a.stream().graphs().launches, 18u);
  EXPECT_EQ(a.stream().graphs().failures, 0u);
}

TEST_F(Slices, WarmUpCapturesForTheSliceOfTheNextBatch) {
  Group a(*device_, 25);
  a.launch_without_results(32);
  ASSERT_TRUE(a.stream().warm_up());
  EXPECT_EQ(a.stream().graphs().kept, 1u);
  a.stream().set_percent(75);
  EXPECT_EQ(a.stream().slice().processors, 32u) << "the move waits for the next batch";
  a.launch_without_results(32);
  ASSERT_TRUE(a.stream().warm_up());
  EXPECT_EQ(a.stream().slice().processors, 96u);
  EXPECT_EQ(a.stream().graphs().kept, 2u);
  EXPECT_EQ(a.stream().graphs().failures, 0u);
  EXPECT_EQ(places_of(a, 32).multiprocessors.count(), 96u);
  EXPECT_EQ(a.stream().graphs().launches, 1u) << "captured ahead";
}

// A move costs the stream's thread two calls for the order, and a few of cuBLAS. It waits for
// nothing, and makes and frees nothing.
TEST_F(Slices, AMoveNeitherWaitsNorAllocates) {
  Group a(*device_, 25), b(*device_, 50);
  for (const double percent : {50.0, 25.0})
    for (int i = 0; i < 3; ++i) {
      a.stream().set_percent(percent);
      (void)a.run(32);
      (void)b.run(32);
    }
  a.stream().set_percent(50);
  const simt::Counts before = simt::counts();
  for (int i = 0; i < 10; ++i) {
    a.launch(32);
    const auto event = a.stream().record();
    EXPECT_TRUE(a.stream().wait(event).status);
    a.stream().set_percent(i % 2 == 0 ? 25 : 50);
  }
  const simt::Counts after = simt::counts();
  EXPECT_EQ(after.device_waits, before.device_waits);
  EXPECT_EQ(after.stream_waits, before.stream_waits);
  EXPECT_EQ(after.plain_copies, before.plain_copies);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.frees, before.frees);
  EXPECT_EQ(after.streams_made, before.streams_made) << "kept from the first time";
  EXPECT_GE(a.stream().slice().switches, 12u);
}

TEST_F(Slices, SharesChangeWhileBatchesRun) {
  Group a(*device_, 50), b(*device_, 50);
  std::atomic<bool> ends = false;
  std::thread control([&] {
    for (int i = 0; !ends; i = (i + 17) % 97) {
      a.stream().set_percent(1 + i);
      b.stream().set_percent(98 - i);
    }
  });
  std::thread other([&] {
    b.stream().attach_thread();
    for (int i = 0; i < 60; ++i) b.expect_right(b.run(8 + i % 25));
  });
  for (int i = 0; i < 60; ++i) a.expect_right(a.run(8 + i % 25));
  other.join();
  ends = true;
  control.join();
  EXPECT_EQ(a.stream().graphs().failures + b.stream().graphs().failures, 0u);
}

TEST_F(Slices, AreThereAgainAfterAReset) {
  {
    Group a(*device_, 25);
    (void)a.run(32);
  }
  ASSERT_TRUE(device_->reset());
  Group a(*device_, 25);
  EXPECT_EQ(places_of(a, 32).multiprocessors.count(), 32u);
}

// The driver may divide the GPU in another way then, and info() shows it.
TEST_F(Slices, CanBeOthersAfterAReset) {
  const DeviceInfo& before = device_->info();
  EXPECT_EQ(before.slice_steps, 8u);
  simt::DeviceOptions machine = kHopper;
  machine.has_green_contexts = false;
  simt::set_device(machine);
  ASSERT_TRUE(device_->reset());
  EXPECT_EQ(device_->info().slices, "priorities");
  EXPECT_EQ(device_->info().slice_steps, 6u);
  EXPECT_EQ(device_->info().division, Division::kPriority);
  EXPECT_EQ(device_->info().memory_bytes, before.memory_bytes);
  EXPECT_EQ(before.slices, "green-contexts") << "other threads may still read it";
  Group small(*device_, 20), large(*device_, 70);
  EXPECT_EQ(places_of(small, 32).priority, 0);
  EXPECT_EQ(places_of(large, 32).priority, -1);
}

TEST_F(Slices, AreThereAgainAfterAFault) {
  {
    Group a(*device_, 25);
    simt::fail_after(3);
    a.launch(32);
    EXPECT_FALSE(a.stream().synchronize());
  }
  ASSERT_TRUE(device_->reset());
  Group a(*device_, 25);
  EXPECT_EQ(places_of(a, 32).multiprocessors.count(), 32u);
}

TEST_F(Slices, TakeFewerStepsIfTheDriverMakesFewContexts) {
  simt::DeviceOptions machine = kHopper;
  machine.max_green_contexts = 20;
  ASSERT_TRUE(open(machine));
  EXPECT_EQ(device_->info().slice_steps, 4u);
  Group a(*device_, 25);
  EXPECT_EQ(places_of(a, 32).multiprocessors.count(), 32u);
}

TEST_F(Slices, HaveUnequalStepsIfPartitionsDoNotDivideEvenly) {
  ASSERT_TRUE(open({.num_multiprocessors = 108, .least_partition = 4}));  // an A100: 27 partitions
  EXPECT_EQ(device_->info().slice_steps, 8u);
  Group a(*device_, 50), b(*device_, 50);
  EXPECT_EQ(places_of(a, 32).multiprocessors.count() + places_of(b, 32).multiprocessors.count(),
            108u);
}

// ---- Without green contexts ----

TEST_F(Slices, ArePrioritiesIfTheDriverLacksGreenContexts) {
  simt::DeviceOptions machine = kHopper;
  machine.has_green_contexts = false;
  ASSERT_TRUE(open(machine));
  EXPECT_EQ(device_->info().slices, "priorities");
  EXPECT_EQ(device_->info().slice_steps, 6u);
  EXPECT_EQ(device_->info().division, Division::kPriority);
  Group small(*device_, 20), large(*device_, 70), equal(*device_, 20);
  EXPECT_EQ(places_of(small, 32).priority, 0);
  EXPECT_EQ(places_of(equal, 32).priority, 0);
  EXPECT_EQ(places_of(large, 32).priority, -1);
  EXPECT_TRUE(places_of(large, 32).multiprocessors.none());
  small.stream().set_percent(80);
  EXPECT_EQ(places_of(small, 32).priority, -2);
}

TEST_F(Slices, ArePrioritiesIfTheDeviceCannotBeSplit) {
  ASSERT_TRUE(open({.num_multiprocessors = 14, .least_partition = 8}));
  EXPECT_EQ(device_->info().slices, "priorities");
}

TEST_F(Slices, AreNoneWithoutEither) {
  ASSERT_TRUE(open({.has_green_contexts = false, .num_priorities = 1}));
  EXPECT_EQ(device_->info().slices, "none");
  EXPECT_EQ(device_->info().slice_steps, 0u);
  EXPECT_EQ(device_->info().division, Division::kNone);
  Group a(*device_, 25);
  EXPECT_EQ(places_of(a, 32).num, 1u);
}

TEST_F(Slices, CanBeChosen) {
  ASSERT_TRUE(open(kHopper, "priorities"));
  EXPECT_EQ(device_->info().slices, "priorities");
  ASSERT_TRUE(open(kHopper, "none"));
  EXPECT_EQ(device_->info().slices, "none");
  ASSERT_TRUE(open(kHopper, "green-contexts"));
  EXPECT_EQ(device_->info().slices, "green-contexts");
}

TEST_F(Slices, AreRefusedByNameIfTheMachineLacksThem) {
  const Status too_small =
      open({.num_multiprocessors = 14, .least_partition = 8}, "green-contexts");
  ASSERT_FALSE(too_small);
  EXPECT_EQ(too_small.error().code, Code::kUnsupported);
  EXPECT_NE(too_small.error().message.find("slices green-contexts cannot be used"),
            std::string::npos)
      << too_small.error().message;
  EXPECT_NE(too_small.error().message.find("14 multiprocessors"), std::string::npos);
  EXPECT_FALSE(open({.num_priorities = 1}, "priorities"));
  const Status unknown = open(kHopper, "mps");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("unknown slices 'mps'"), std::string::npos);
}

}  // namespace
}  // namespace itif::device
