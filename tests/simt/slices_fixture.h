// A device whose slices groups share, and groups that check their results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "device/cuda/device.h"
#include "numbers.h"
#include "runtime.h"

namespace itif::device {

// A chip of 132 multiprocessors, as an H200 has: 16 partitions of 8, and 4 in none.
inline constexpr simt::DeviceOptions kHopper = {.num_multiprocessors = 132, .least_partition = 8};
inline constexpr simt::DeviceOptions kHopperWithoutGreenContexts = {
    .num_multiprocessors = 132, .has_green_contexts = false, .least_partition = 8};
// Neither green contexts nor an MPS server.
inline constexpr simt::DeviceOptions kHopperWithoutContexts = {.num_multiprocessors = 132,
                                                               .has_green_contexts = false,
                                                               .least_partition = 8,
                                                               .has_mps = false};

class Slices : public ::testing::Test {
 protected:
  // A group's stream with its data.
  class Group {
   public:
    static constexpr uint32_t kRows = 32, kDepth = 64, kWidth = 24, kLaunches = 10;
    static constexpr size_t kNumbers = (kRows + kWidth) * kDepth;

    Group(Device& device, double percent)
        : stream_(device
                      .make_stream({.max_tokens = kRows, .max_segments = 8},
                                   {.share = {.percent = percent}})
                      .value()) {
      numbers_ = device.allocate(kNumbers * sizeof(float)).value();
      upload_numbers(device, numbers_->data(), kNumbers);
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
      const std::vector<float> x = numbers(kNumbers);
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
  // Adds to a number in each batch.
  class Counter {
   public:
    static constexpr uint32_t kWidth = 64, kLaunches = 10;  // enough for a graph

    Counter(Device& device, double percent)
        : stream_(device
                      .make_stream({.max_tokens = 8, .max_segments = 8},
                                   {.share = {.percent = percent}})
                      .value()),
          number_(device.allocate(kWidth * sizeof(float)).value()),
          one_(device.allocate(kWidth * sizeof(float)).value()) {
      upload(device, one_->data(), std::vector<float>(kWidth, 1));
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
    // Runs batches with two in flight, each on another slice than the one before.
    void expect_sums_on_changing_slices(size_t num_batches) {
      std::vector<float> sums(num_batches, -1);
      Stream::Event last = 0;
      for (size_t turn = 0; turn < num_batches; ++turn) {
        stream().set_percent(std::array{70, 30, 100}[turn % 3]);
        const Stream::Event event = add(sums[turn]);
        if (turn > 0) {
          EXPECT_TRUE(stream().wait(last).status);
        }
        last = event;
      }
      EXPECT_TRUE(stream().wait(last).status);
      for (size_t turn = 0; turn < num_batches; ++turn)
        ASSERT_EQ(sums[turn], static_cast<float>((turn + 1) * kLaunches)) << turn;
    }

   private:
    std::unique_ptr<Stream> stream_;
    std::unique_ptr<Buffer> number_, one_;
  };

  Slices() { open(kHopper); }
  ~Slices() override {
    device_.reset();
    simt::set_device({});
  }
  Status open(const simt::DeviceOptions& machine, const std::string& slices = "auto",
              const std::string& attention = "itif") {
    device_.reset();
    simt::set_device(machine);
    auto opened = open_cuda_device({.kind = "cuda",
                                    .dtype = attention == "itif" ? "f32" : "bf16",
                                    .attention = attention,
                                    .slices = slices});
    if (!opened) return std::unexpected(opened.error());
    device_ = std::move(*opened);
    return {};
  }
  // The places of a batch's launches and copies.
  struct Places {
    simt::Multiprocessors multiprocessors;
    size_t count = 0;  // of multiprocessors; 0: all
    std::optional<int> priority;
    std::set<uint64_t> contexts;
    size_t num = 0;  // different ones
  };
  static size_t count_of(const simt::Place& place) {
    return place.limit > 0 ? place.limit : place.multiprocessors.count();
  }
  static Places places_of(Group& group, uint32_t rows) {
    std::vector<simt::LaunchedOn> before = simt::launched_on();
    group.expect_right(group.run(rows));
    Places places;
    for (const simt::LaunchedOn& now : simt::launched_on()) {
      uint64_t earlier = 0;
      for (const simt::LaunchedOn& one : before)
        if (one.place == now.place) earlier = one.launches;
      if (now.launches == earlier) continue;
      places.multiprocessors |= now.place.multiprocessors;
      places.count = count_of(now.place);
      places.priority = now.place.priority;
      places.contexts.insert(now.place.context);
      ++places.num;
    }
    return places;
  }

  std::unique_ptr<Device> device_;
};

// Slices that are a number of multiprocessors, by each kind: green contexts and contexts of MPS.
class SlicesByCount : public Slices, public ::testing::WithParamInterface<const char*> {
 protected:
  SlicesByCount() { EXPECT_TRUE(open(kHopper, GetParam())); }
  bool is_mps() const { return std::string(GetParam()) == "mps"; }
  // Returns how many multiprocessors a share of whole steps has. MPS rounds up to pairs.
  size_t count(size_t percent) const {
    return is_mps() ? (132 * percent / 100 + 1) / 2 * 2 : 128 * percent / 100;
  }
};

}  // namespace itif::device
