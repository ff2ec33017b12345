// Packets that are only partly in registered memory: a GPU may read no byte of the rest.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "device_fixture.h"

namespace itif::device {
namespace {

class PartlyRegistered : public CudaDevice {
 protected:
  static constexpr size_t kPage = 4096;

  // Gathers ids from `data`, which then changes. Returns true if the GPU read a copy.
  bool is_copied(std::byte* data) {
    auto* const all = reinterpret_cast<uint32_t*>(data);
    for (uint32_t i = 0; i < kIds; ++i) all[i] = i;
    const kernels::IdPiece piece{.data = data, .num_ids = kIds, .first_row = 0, .id_bytes = 4};
    stream_->launch(kernels::GatherIds{.pieces = {&piece, 1},
                                       .ids = reinterpret_cast<int32_t*>(out_->data()),
                                       .vocab_size = 1000});
    for (uint32_t i = 0; i < kIds; ++i) all[i] = 77;
    const std::vector<int32_t> got = gathered();
    return got[0] == 0 && got[kIds - 1] == kIds - 1;
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  const std::unique_ptr<std::byte, Free> memory_{
      static_cast<std::byte*>(std::aligned_alloc(kPage, 4 * kPage))};
};

TEST_F(PartlyRegistered, PacketsAreCopied) {
  constexpr size_t kBytes = kIds * sizeof(uint32_t);
  std::byte* const begin = memory_.get() + kPage;
  std::byte* const end = begin + kPage;
  ASSERT_TRUE(device_->register_host_memory(begin, kPage));
  EXPECT_FALSE(is_copied(begin));
  EXPECT_FALSE(is_copied(end - kBytes));
  EXPECT_TRUE(is_copied(end - kBytes + 4)) << "the last id is outside";
  EXPECT_TRUE(is_copied(end - 4)) << "only the first id is inside";
  EXPECT_TRUE(is_copied(begin - 4)) << "the first id is outside";
  EXPECT_TRUE(is_copied(end));
  ASSERT_TRUE(device_->register_host_memory(end, kPage));
  EXPECT_FALSE(is_copied(end - 4)) << "two ranges, side by side";
}

}  // namespace
}  // namespace itif::device
