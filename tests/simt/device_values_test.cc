// What the CUDA device promises beside its operators, by what arrives: what it reads in place, what it copies, and
// that a batch that comes again reads its own data. tests/gpu runs these on a GPU, too.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "device_fixture.h"

namespace itif::device {
namespace {

// Launches are made when they are waited for: what is read in place may have changed by then.
TEST_F(CudaDevice, RegisteredMemoryIsReadWhereItStands) {
  ASSERT_TRUE(device_->register_host_memory(pages_.data(), pages_.size()));
  gather();
  ids()[5] = 77;
  EXPECT_EQ(gathered()[5], 77);
}

TEST_F(CudaDevice, OtherMemoryIsCopiedFirst) {
  gather();
  ids()[5] = 77;
  EXPECT_EQ(gathered()[5], 5);
}

TEST_F(CudaDevice, RegistersByWholePagesAndNoneTwice) {
  std::vector<std::byte> memory(10 * 4096);
  for (const auto& [offset, bytes] :
       {std::pair<size_t, size_t>{4096, 100}, {5000, 9000}, {0, 40960}, {100, 1}})
    EXPECT_TRUE(device_->register_host_memory(memory.data() + offset, bytes));
}

// What was to be copied is not what a launch behind writes there.
TEST_F(CudaDevice, CopiesKeepTheirPlaceAmongLaunches) {
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

// Packets and plan are another batch's, the launches the same: by then they are a graph.
TEST_F(CudaDevice, ABatchThatComesAgainReadsItsOwnData) {
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
      stream_->gather_ids({.pieces = {&piece, 1},
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

// Into memory of any alignment, of any length.
TEST_F(CudaDevice, ResultsOfAnyLengthArriveWhole) {
  for (uint32_t i = 0; i < kIds; ++i) ids()[i] = 0x01010101u * (i + 1);  // no byte is 0
  const kernels::IdPiece piece{
      .data = pages_.data(), .num_ids = kIds, .first_row = 0, .id_bytes = 4};
  stream_->gather_ids({.pieces = {&piece, 1},
                       .ids = reinterpret_cast<int32_t*>(out_->data()),
                       .vocab_size = INT32_MAX});
  constexpr size_t kMost = kIds * sizeof(int32_t);
  std::vector<std::vector<std::byte>> got;
  for (size_t bytes = 1; bytes <= kMost; bytes += 1 + bytes / 3) got.emplace_back(bytes + 1);
  for (std::vector<std::byte>& one : got)
    stream_->copy_to_host(out_->data() + kMost - one.size() + 1, one.size() - 1, one.data() + 1);
  ASSERT_TRUE(stream_->synchronize());
  const auto* expected = reinterpret_cast<const std::byte*>(ids());
  for (const std::vector<std::byte>& one : got)
    EXPECT_EQ(std::memcmp(one.data() + 1, expected + kMost - one.size() + 1, one.size() - 1), 0)
        << one.size() - 1;
}

}  // namespace
}  // namespace itif::device
