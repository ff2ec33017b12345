// Slots of the CUDA device that share memory: the same pieces are mapped at several addresses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "base/random.h"
#include "device_fixture.h"
#include "runtime.h"

namespace itif::device {
namespace {

constexpr size_t kSlotBytes = 1'000'000;  // almost whole pieces

class SlabSharing : public CudaDevice {
 protected:
  void write(uint32_t slot, float value) {
    const std::vector<float> values(kSlotBytes / sizeof(float), value);
    const TensorView view{reinterpret_cast<const std::byte*>(values.data()), DType::kF32,
                          Shape{values.size()}};
    ASSERT_TRUE(device_->upload(view, DType::kF32, slab_->slab().at(slot)));
  }
  // The slot's value; 0: its values differ.
  float read(uint32_t slot) {
    std::vector<float> values(kSlotBytes / sizeof(float));
    device_->download(slab_->slab().at(slot), kSlotBytes, values.data());
    const bool is_same = std::ranges::all_of(values, [&](float v) { return v == values[0]; });
    return is_same ? values[0] : 0;
  }
  static size_t used() { return simt::counts().live_device_bytes; }

  std::unique_ptr<SlabMemory> slab_ = device_->reserve_slab(kSlotBytes, 5).value();
};

TEST_F(SlabSharing, SharedSlotsCountOnceAndOutliveTheFirstHolder) {
  ASSERT_TRUE(slab_->can_share());
  const size_t before = used();
  ASSERT_TRUE(slab_->commit(0));
  const size_t one = used() - before;
  write(0, 7);
  ASSERT_TRUE(slab_->share(2, 0));
  ASSERT_TRUE(slab_->share(4, 2));
  EXPECT_EQ(used() - before, one);
  EXPECT_EQ(slab_->used_bytes(), one);
  EXPECT_EQ(slab_->slab().at(4) - slab_->slab().at(2), 2 * ptrdiff_t(one)) << "by stride";
  slab_->release(0);
  EXPECT_EQ(read(2), 7);
  ASSERT_TRUE(slab_->commit(0));
  write(0, 9);
  EXPECT_EQ(read(4), 7);
  slab_->release(2);
  EXPECT_EQ(read(4), 7);
  slab_->release(4);
  EXPECT_EQ(used() - before, one);
  EXPECT_EQ(read(0), 9);
  slab_.reset();
  EXPECT_EQ(used(), before);
}

TEST_F(SlabSharing, ADestroyedSlabFreesSharedMemory) {
  const size_t before = used(), available = device_->available_bytes();
  ASSERT_TRUE(slab_->commit(3));
  ASSERT_TRUE(slab_->share(1, 3));
  slab_.reset();
  EXPECT_EQ(used(), before);
  EXPECT_EQ(device_->available_bytes(), available);
}

TEST_F(SlabSharing, RandomSharesReadTheirOwnContent) {
  Random random(5);
  const size_t before = used();
  std::map<uint32_t, float> held;
  float next = 0;
  for (int turn = 0; turn < 100; ++turn) {
    const auto slot = static_cast<uint32_t>(random.below(5));
    if (held.erase(slot) > 0) {
      slab_->release(slot);
    } else if (held.empty() || random.below(2) == 0) {
      ASSERT_TRUE(slab_->commit(slot));
      write(slot, held[slot] = ++next);
    } else {
      const auto with = *std::next(held.begin(), static_cast<long>(random.below(held.size())));
      ASSERT_TRUE(slab_->share(slot, with.first));
      held[slot] = with.second;
    }
    std::set<float> contents;
    for (const auto& [each, value] : held) {
      contents.insert(value);
      ASSERT_EQ(read(each), value) << turn;
    }
    ASSERT_EQ(used() - before, contents.size() * slab_->slab().stride_bytes);
    ASSERT_EQ(slab_->used_bytes(), used() - before);
  }
}

// A slot that shares its first piece with the slot before cannot have the pieces of another.
TEST_F(SlabSharing, SlotsThatAreNoWholePiecesAreNotShared) {
  EXPECT_FALSE(device_->reserve_slab(100'000, 4).value()->can_share());
}

// A faulty GPU takes nothing back before its reset: neither the pieces nor their other addresses.
TEST_F(SlabSharing, FaultLeaksNoSharedMemory) {
  stream_.reset();
  out_.reset();
  const size_t before = used();
  ASSERT_TRUE(slab_->commit(0));
  ASSERT_TRUE(slab_->share(1, 0));
  ASSERT_TRUE(slab_->share(2, 0));
  simt::fail_after(0);
  EXPECT_FALSE(device_->allocate(64));
  EXPECT_FALSE(slab_->share(3, 0));
  EXPECT_EQ(slab_->used_bytes(), slab_->slab().stride_bytes);
  slab_->release(0);
  slab_.reset();
  const Status reset = device_->reset();
  ASSERT_TRUE(reset) << reset.error().message;
  EXPECT_EQ(used(), before);
}

}  // namespace
}  // namespace itif::device
