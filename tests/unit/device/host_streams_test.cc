// Streams of the host device that share its CPUs: each GEMM gives the same result as alone, also
// when it runs in parts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "base/random.h"
#include "device/device.h"
#include "device/turn_taking.h"

namespace itif::device {
namespace {

constexpr uint32_t kRows = 700, kN = 192, kK = 256;

class HostStreams : public testing::Test {
 protected:
  // One stream's operands: small whole numbers, so that sums are exact in any order.
  struct Operands {
    std::unique_ptr<Buffer> a, weights, out;
  };

  Operands make_operands(uint64_t seed) {
    Operands made;
    made.a = device_->allocate((kRows + device_->row_slack()) * kK * sizeof(float)).value();
    made.out = device_->allocate((kRows + device_->row_slack()) * kN * sizeof(float)).value();
    Random random(seed);
    const auto fill = [&](float* values, size_t count) {
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.below(9)) - 4;
    };
    fill(reinterpret_cast<float*>(made.a->data()), size_t{kRows} * kK);
    std::vector<float> weights(size_t{kN} * kK);
    fill(weights.data(), weights.size());
    made.weights = device_->allocate(device_->packed_bytes(kShape).value()).value();
    const TensorView view{.data = reinterpret_cast<const std::byte*>(weights.data()),
                          .dtype = DType::kF32,
                          .shape = {kN, kK}};
    EXPECT_TRUE(device_->pack(kShape, {&view, 1}, made.weights->data()));
    return made;
  }
  void launch(Stream& stream, const Operands& operands,
              kernels::GemmMode mode = kernels::GemmMode::kSequential) {
    const kernels::RowRange ranges[] = {{0, 450, 0}, {450, kRows - 450, 0}};
    stream.launch(kernels::GroupedGemm{.a = operands.a->data(),
                                       .weights = {operands.weights->data(), 0},
                                       .bias = {},
                                       .out = operands.out->data(),
                                       .n = kN,
                                       .k = kK,
                                       .ranges = ranges,
                                       .schedule = mode,
                                       .prepared = prepared_.get()});
  }
  std::vector<float> result_of(const Operands& operands) {
    std::vector<float> values(size_t{kRows} * kN);
    std::memcpy(values.data(), operands.out->data(), values.size() * sizeof(float));
    return values;
  }

  // Another stream, which computes all the time.
  class Company {
   public:
    explicit Company(HostStreams& test) : thread_([&test, this] { run(test); }) {}
    ~Company() {
      stop_.store(true);
      thread_.join();
    }

   private:
    void run(HostStreams& test) {
      const Operands operands = test.make_operands(1);
      const auto stream = test.device_->make_stream({}, {.share = {.percent = 50}}).value();
      while (!stop_.load()) {
        test.launch(*stream, operands);
        ASSERT_TRUE(stream->synchronize());
      }
    }

    std::atomic<bool> stop_{false};
    std::thread thread_;
  };

  static size_t num_threads() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
  }

  static constexpr GemmShape kShape{.n = kN, .k = kK, .has_bias = false};
  std::unique_ptr<Device> device_ =
      open_device({.kind = "host", .dtype = "f32", .num_threads = 2}).value();
  GemmHandle prepared_ = device_->prepare(kShape, kRows).value();
};

TEST_F(HostStreams, ComputeInTurns) {
  EXPECT_EQ(device_->info().division, Division::kTime);
  constexpr int kStreams = 3;
  std::vector<Operands> operands;
  std::vector<std::vector<float>> expected;
  const auto alone = device_->make_stream().value();
  for (uint64_t seed = 0; seed < kStreams; ++seed) {
    operands.push_back(make_operands(seed));
    launch(*alone, operands.back());
    ASSERT_TRUE(alone->synchronize());
    expected.push_back(result_of(operands.back()));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kStreams; ++i)
    threads.emplace_back([&, i] {
      const auto stream = device_->make_stream({}, {.share = {.percent = 10.0 * (i + 1)}}).value();
      for (int batch = 0; batch < 20; ++batch) {
        std::memset(operands[i].out->data(), 0, size_t{kRows} * kN * sizeof(float));
        for (int launches = 0; launches < 5; ++launches)
          launch(*stream, operands[i],
                 batch % 2 == 0 ? kernels::GemmMode::kSequential : kernels::GemmMode::kConcurrent);
        if (batch == 10) stream->set_percent(50);
        ASSERT_TRUE(stream->synchronize());
        ASSERT_EQ(result_of(operands[i]), expected[i]) << "stream " << i << ", batch " << batch;
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// With company, a GEMM of a large weight runs in parts of its columns.
TEST_F(HostStreams, LargeGemmsInPartsGiveTheSameResult) {
  constexpr GemmShape kLarge{.n = 1536, .k = 512, .has_bias = true};
  constexpr uint32_t kSlots = 2;
  const std::vector<kernels::RowRange> ranges = {{0, 1, 0}, {1, 300, 1}, {301, 37, 0}};
  const uint32_t rows = 338 + device_->row_slack();
  const auto a = device_->allocate(size_t{rows} * kLarge.k * sizeof(float)).value();
  const auto out = device_->allocate(size_t{rows} * kLarge.n * sizeof(float)).value();
  const size_t packed_bytes = device_->packed_bytes(kLarge).value();
  const size_t bias_bytes = kLarge.n * sizeof(float);
  const auto weights = device_->allocate(kSlots * packed_bytes).value();
  const auto bias = device_->allocate(kSlots * bias_bytes).value();
  Random random(7);
  const auto fill = [&](void* values, size_t count) {
    for (size_t i = 0; i < count; ++i)
      static_cast<float*>(values)[i] = static_cast<float>(random.below(9)) - 4;
  };
  fill(a->data(), size_t{rows} * kLarge.k);
  fill(bias->data(), kSlots * kLarge.n);
  std::vector<float> weight(size_t{kLarge.n} * kLarge.k);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    fill(weight.data(), weight.size());
    const TensorView view{.data = reinterpret_cast<const std::byte*>(weight.data()),
                          .dtype = DType::kF32,
                          .shape = {kLarge.n, kLarge.k}};
    ASSERT_TRUE(device_->pack(kLarge, {&view, 1}, weights->data() + slot * packed_bytes));
  }
  const GemmHandle prepared = device_->prepare(kLarge, rows).value();
  const auto compute = [&](Stream& stream, kernels::GemmMode mode) {
    std::memset(out->data(), 0, size_t{rows} * bias_bytes);
    stream.launch(kernels::GroupedGemm{.a = a->data(),
                                       .weights = {weights->data(), packed_bytes},
                                       .bias = {bias->data(), bias_bytes},
                                       .out = out->data(),
                                       .n = kLarge.n,
                                       .k = kLarge.k,
                                       .ranges = ranges,
                                       .schedule = mode,
                                       .prepared = prepared.get()});
    EXPECT_TRUE(stream.synchronize());
    std::vector<float> values(size_t{338} * kLarge.n);
    std::memcpy(values.data(), out->data(), values.size() * sizeof(float));
    return values;
  };
  const auto stream = device_->make_stream({}, {.share = {.percent = 50}}).value();
  const auto expected = compute(*stream, kernels::GemmMode::kSequential);
  const Company company(*this);
  for (int i = 0; i < 20; ++i)
    for (const auto mode : {kernels::GemmMode::kSequential, kernels::GemmMode::kConcurrent})
      ASSERT_EQ(compute(*stream, mode), expected) << i;
  auto* const turns = dynamic_cast<TurnTaking*>(stream.get());
  ASSERT_NE(turns, nullptr);
  EXPECT_GT(turns->turn_wait_ns(), 0u) << "it had company";
}

// With company, an operator on rows runs in parts that start and end within ranges.
TEST_F(HostStreams, RowsInPartsGiveTheSameResult) {
  constexpr uint32_t kAllRows = 20'000, kWidth = 256;
  const std::vector<kernels::RowRange> ranges = {
      {0, 1, 0}, {1, 7'000, 1}, {7'001, 0, 0}, {7'010, 12'000, 0}, {19'990, 10, 1}};
  const size_t bytes = size_t{kAllRows} * kWidth * sizeof(float);
  const auto x = device_->allocate(bytes).value(), out = device_->allocate(bytes).value();
  const auto parameters = device_->allocate(2 * kWidth * sizeof(float)).value();
  Random random(3);
  const auto fill = [&](Buffer& buffer, size_t count) {
    auto* values = reinterpret_cast<float*>(buffer.data());
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.below(100)) / 10;
  };
  fill(*x, size_t{kAllRows} * kWidth);
  fill(*parameters, 2 * kWidth);
  const kernels::Slab slab{parameters->data(), kWidth * sizeof(float)};
  const auto normalize = [&](Stream& stream) {
    std::memset(out->data(), 0, bytes);
    stream.launch(kernels::ResidualLayerNorm{.x = x->data(),
                                             .gamma = slab,
                                             .beta = slab,
                                             .hidden = kWidth,
                                             .ranges = ranges,
                                             .out = out->data()});
    EXPECT_TRUE(stream.synchronize());
    std::vector<float> values(size_t{kAllRows} * kWidth);
    std::memcpy(values.data(), out->data(), bytes);
    return values;
  };
  const auto stream = device_->make_stream({}, {.share = {.percent = 50}}).value();
  const std::vector<float> expected = normalize(*stream);
  const Company company(*this);
  auto* const turns = dynamic_cast<TurnTaking*>(stream.get());
  ASSERT_NE(turns, nullptr);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(normalize(*stream), expected) << i;
  EXPECT_GT(turns->turn_wait_ns(), 0u) << "it had company";
}

// A stream's pool has a thread for each of its CPUs. Streams of one and of two threads use the same
// weights, and those on different CPUs do not wait for each other.
TEST_F(HostStreams, ComputeWithOneThreadForEachCpu) {
  const std::vector<Share> shares = {{.cpus = {0, 1}}, {.cpus = {0}}, {.cpus = {1}}};
  const Operands operands = make_operands(1);
  const auto all = device_->make_stream().value();
  launch(*all, operands);
  ASSERT_TRUE(all->synchronize());
  const std::vector<float> expected = result_of(operands);
  for (const Share& share : shares) {
    std::memset(operands.out->data(), 0, size_t{kRows} * kN * sizeof(float));
    size_t most_threads = 0;
    std::thread([&] {
      const size_t before = num_threads();
      const auto stream = device_->make_stream({}, {.share = share}).value();
      stream->attach_thread();
      launch(*stream, operands);
      ASSERT_TRUE(stream->synchronize());
      most_threads = num_threads() - before;
    }).join();
    EXPECT_EQ(result_of(operands), expected) << share.cpus.size() << " CPUs";
    EXPECT_EQ(most_threads, share.cpus.size() - 1) << "beside the stream's own";
  }
  // Shapes that are prepared later serve streams of both numbers of threads, too.
  const GemmShape later{.n = 64, .k = kK, .has_bias = false};
  const GemmHandle prepared = device_->prepare(later, kRows).value();
  const auto weights = device_->allocate(device_->packed_bytes(later).value()).value();
  std::vector<float> ones(size_t{later.n} * kK, 1.0f);
  const TensorView view{.data = reinterpret_cast<const std::byte*>(ones.data()),
                        .dtype = DType::kF32,
                        .shape = {later.n, kK}};
  ASSERT_TRUE(device_->pack(later, {&view, 1}, weights->data()));
  const kernels::RowRange range{0, kRows, 0};
  for (const Share& share : shares) {
    const auto stream = device_->make_stream({}, {.share = share}).value();
    stream->launch(kernels::GroupedGemm{.a = operands.a->data(),
                                        .weights = {weights->data(), 0},
                                        .bias = {},
                                        .out = operands.out->data(),
                                        .n = later.n,
                                        .k = kK,
                                        .ranges = {&range, 1},
                                        .prepared = prepared.get()});
    ASSERT_TRUE(stream->synchronize()) << share.cpus.size() << " CPUs";
  }
}

}  // namespace
}  // namespace itif::device
