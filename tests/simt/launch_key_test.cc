// Keys of graph segments hold no host addresses: those differ between equal batches.
#include <gtest/gtest.h>

#include <type_traits>
#include <variant>
#include <vector>

#include "device/cuda/graph/graphs.h"
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

TEST(LaunchKey, TellsOtherArgumentsApart) {
  kernels::ToF32 first{.x = nullptr, .out = nullptr, .count = 1}, second = first;
  second.count = 2;
  EXPECT_EQ(key_of(first), key_of(first));
  EXPECT_NE(key_of(first), key_of(second));
}

}  // namespace
}  // namespace itif::device::cuda
