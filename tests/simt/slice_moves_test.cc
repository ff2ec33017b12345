// Measures what a move to another slice of the GPU costs, and how far a busy group delays another
// one's batches. tests/gpu runs it on a GPU; tools/gpu-check prints its figures. The times of the
// simulated GPU mean nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/device.h"

namespace itif::device {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

class SliceMoves : public ::testing::Test {
 protected:
  static constexpr size_t kSmall = 1 << 12, kLarge = 1 << 24;  // values of a launch

  SliceMoves() {
    auto opened = open_cuda_device({.kind = "cuda", .dtype = "f32"});
    if (!opened) throw std::runtime_error(opened.error().message);
    device_ = std::move(*opened);
    is_simulated_ = device_->info().description.starts_with("simulated");
    std::printf("[  DEVICE  ] %s, slices: %s, %u steps\n", device_->info().description.c_str(),
                device_->info().slices.c_str(), device_->info().slice_steps);
  }
  size_t values(size_t on_gpu) const { return is_simulated_ ? 1024 : on_gpu; }
  int rounds() const { return is_simulated_ ? 4 : 400; }

  struct Group {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Buffer> data;
  };
  Group make(double percent, size_t count) {
    return {.stream = device_->make_stream({}, {.share = {.percent = percent}}).value(),
            .data = device_->allocate(count * sizeof(float)).value()};
  }
  static void launch(Group& group, size_t count, int launches) {
    for (int i = 0; i < launches; ++i)
      group.stream->launch(kernels::ToF32{.x = group.data->data(),
                                          .out = reinterpret_cast<float*>(group.data->data()),
                                          .count = static_cast<uint32_t>(count)});
  }
  static void print(const std::string& what, double value, const char* unit, const char* wanted) {
    std::printf("[  FIGURE  ] %s: %.2f %s (%s)\n", what.c_str(), value, unit, wanted);
  }
  // Runs batches with two in flight, each after a change of the share. Returns the time of a batch.
  double us_per_batch(Group& group, double odd, double even) {
    constexpr int kLaunches = 10;
    const auto run = [&](int count) {
      Stream::Event last = 0;
      for (int i = 0; i < count; ++i) {
        group.stream->set_percent(i % 2 == 0 ? even : odd);
        launch(group, values(kSmall), kLaunches);
        const Stream::Event event = group.stream->record();
        if (i > 0) {
          EXPECT_TRUE(group.stream->wait(last).status);
        }
        last = event;
      }
      EXPECT_TRUE(group.stream->wait(last).status);
    };
    run(12);  // makes streams, captures graphs
    const auto begin = Clock::now();
    run(rounds());
    return us_since(begin) / rounds();
  }
  // Returns the 99th percentile of a batch's time.
  double p99_us(Group& group) {
    std::vector<double> all;
    for (int i = 0; i < rounds(); ++i) {
      const auto begin = Clock::now();
      launch(group, values(kSmall), 10);
      EXPECT_TRUE(group.stream->synchronize());
      all.push_back(us_since(begin));
    }
    std::ranges::sort(all);
    return all[all.size() * 99 / 100];
  }
  // The same while another group keeps the GPU busy.
  double p99_us_beside_load(double percent) {
    Group small = make(percent, values(kSmall)), large = make(percent, values(kLarge));
    std::atomic<bool> ends = false;
    std::thread load([&] {
      large.stream->attach_thread();
      while (!ends) {
        launch(large, values(kLarge), 20);
        EXPECT_TRUE(large.stream->synchronize());
      }
    });
    (void)p99_us(small);
    const double measured = p99_us(small);
    ends = true;
    load.join();
    return measured;
  }

  std::unique_ptr<Device> device_;
  bool is_simulated_ = false;
};

TEST_F(SliceMoves, AMoveBetweenTwoBatches) {
  if (device_->info().slice_steps == 0) GTEST_SKIP() << "the GPU is not divided";
  Group group = make(50, values(kSmall)), other = make(50, values(kSmall));
  // Both change the share before each batch; only the second changes the slice.
  const double without = us_per_batch(group, 50, 51), with = us_per_batch(group, 20, 80);
  EXPECT_GT(group.stream->slice().switches, 0u);
  print("a move to another slice, between two batches", with - without, "us",
        "wanted: at most 100");
}

TEST_F(SliceMoves, ABusyGroupBesideAnother) {
  Group alone = make(50, values(kSmall));
  (void)p99_us(alone);
  const double lone = p99_us(alone);
  alone = {};
  print("p99 beside a busy group over alone, without shares", p99_us_beside_load(0) / lone, "times",
        "for comparison");
  print("p99 beside a busy group over alone, at 50 % each", p99_us_beside_load(50) / lone, "times",
        "wanted: at most 1.2");
}

}  // namespace
}  // namespace itif::device
