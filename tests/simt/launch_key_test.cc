// Keys of graph segments: they hold what launches depend on, and no host addresses, which differ
// between equal batches.
#include <gtest/gtest.h>

#include <type_traits>
#include <variant>
#include <vector>

#include "device/cuda/graph/graphs.h"
#include "device_fixture.h"
#include "kernels/cuda/launch.h"
#include "kernels/operators.h"

namespace itif::device::cuda {
namespace {

alignas(16) constexpr std::byte kHost[64] = {};

template <class Args>
std::vector<std::byte> key_of(const Args& args) {
  LaunchKey key;
  key.add_arguments(args);
  return {key.bytes().begin(), key.bytes().end()};
}

template <class Args>
void expect_no_addresses(const char* name) {
  Args args{};
  const std::vector<std::byte> without = key_of(args);
  size_t num_spans = 0;
  kernels::for_each_span(args, [&]<class T>(std::span<const T>& span) {
    span = {reinterpret_cast<const T*>(kHost), ++num_spans};
  });
  EXPECT_EQ(key_of(args), without) << name;
  EXPECT_EQ(without.size(), sizeof(Args)) << name;
}

template <class... Args>
void expect_no_addresses_of_all(std::type_identity<std::variant<const Args*...>>) {
  (expect_no_addresses<Args>(Args::kName), ...);
}

TEST(LaunchKey, HoldsNoHostAddressOfAnyOperator) {
  expect_no_addresses_of_all(std::type_identity<kernels::Operator>());
  expect_no_addresses<kernels::GroupedGemm>("one of several GEMMs");
}

TEST(LaunchKey, DistinguishesOtherArguments) {
  kernels::ToF32 first{.x = nullptr, .out = nullptr, .count = 1}, second = first;
  second.count = 2;
  EXPECT_EQ(key_of(first), key_of(first));
  EXPECT_NE(key_of(first), key_of(second));
}

class OperatorGraphs : public CudaDevice {
 protected:
  // Launches a segment that is long enough for a graph.
  template <class Args>
  void launch(const Args& args) {
    for (int i = 0; i < 12; ++i) stream_->launch(args);
    stream_->end_graph_segment();
  }
  // Gathers the ids, then launches segments until a graph replays them.
  template <class Args>
  void replay(const Args& args) {
    gather();
    stream_->end_graph_segment();
    for (int turn = 0; turn < 4; ++turn) {
      launch(args);
      ASSERT_TRUE(stream_->synchronize());
    }
    ASSERT_GT(stream_->graphs().launches, 0u);
  }
};

TEST_F(OperatorGraphs, DependOnArguments) {
  const auto first = device_->allocate(kIds * sizeof(float)).value();
  const auto second = device_->allocate(kIds * sizeof(float)).value();
  kernels::ToF32 args{
      .x = out_->data(), .out = reinterpret_cast<float*>(first->data()), .count = kIds};
  replay(args);
  args.out = reinterpret_cast<float*>(second->data());
  launch(args);
  int32_t last = 0;
  stream_->copy_to_host(second->data() + (kIds - 1) * sizeof(float), sizeof last, &last);
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_EQ(last, static_cast<int32_t>(kIds) - 1);
}

// A kernel gets these arguments as one structure.
TEST_F(OperatorGraphs, DependOnArgumentsInStructures) {
  constexpr float kBias[4] = {3, 3, 3, 3};
  const auto x = device_->allocate(sizeof kBias).value();
  const auto zeros = device_->allocate(sizeof kBias).value();
  const auto threes = device_->allocate(sizeof kBias).value();
  const TensorView source{reinterpret_cast<const std::byte*>(kBias), DType::kF32, {4}};
  ASSERT_TRUE(device_->upload(source, DType::kF32, threes->data()));
  const kernels::RowRange range{0, 1, 0};
  kernels::BiasActivation args{
      .x = x->data(), .bias = {zeros->data(), 0}, .width = 4, .ranges = {&range, 1}};
  replay(args);
  args.bias.base = threes->data();
  launch(args);
  float got = 0;
  stream_->copy_to_host(x->data(), sizeof got, &got);
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_EQ(got, 12 * kBias[0]);
}

// A graph keeps its grids, so the key has them even if an operator's code adds nothing to it.
TEST(LaunchLog, KeyHasGridsAndNumbers) {
  kernels::cuda::LaunchLog log;
  const kernels::cuda::Launcher launch(log, DType::kF32, {});
  const auto key_of = [&](uint32_t blocks, int number) {
    const auto from = log.end();
    launch(
        {.blocks = dim3(blocks), .threads = dim3(32)}, +[](int) {}, number);
    const std::span<const std::byte> key = log.key(from, log.end());
    return std::vector<std::byte>(key.begin(), key.end());
  };
  EXPECT_EQ(key_of(1, 2), key_of(1, 2));
  EXPECT_NE(key_of(1, 2), key_of(3, 2));
  EXPECT_NE(key_of(1, 2), key_of(1, 4));
}

TEST_F(OperatorGraphs, DependOnTheNumberOfPlanValues) {
  constexpr uint32_t kBlock = 8;  // values: keys and values of 4
  const kernels::KvCopy copies[] = {{0, 1, 1}, {0, 2, 1}};
  kernels::CopyKv args{
      .copies = {copies, 1},
      .pool = {.base = out_->data(), .num_layers = 1, .block_tokens = 1, .hidden = kBlock / 2}};
  replay(args);
  args.copies = copies;
  launch(args);
  const std::vector<int32_t> got = gathered();
  EXPECT_EQ(got[kBlock + 3], 3);
  EXPECT_EQ(got[2 * kBlock + 3], 3);
  EXPECT_EQ(got[3 * kBlock + 3], 3 * static_cast<int32_t>(kBlock) + 3) << "no copy";
}

}  // namespace
}  // namespace itif::device::cuda
