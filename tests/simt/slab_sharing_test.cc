// Slots of the CUDA device that share memory: the same pieces are mapped at several addresses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "device_fixture.h"
#include "runtime.h"

namespace itif::device {
namespace {

constexpr size_t kSlotBytes = 1'000'000;  // almost whole pieces

class SlabSharing : public CudaDevice {
 protected:
  void write(uint32_t slot, float value) { write(*slab_, slot, value); }
  float read(uint32_t slot) { return read(*slab_, slot); }
  void write(SlabMemory& slab, uint32_t slot, float value) {
    const std::vector<float> values(kSlotBytes / sizeof(float), value);
    const TensorView view{reinterpret_cast<const std::byte*>(values.data()), DType::kF32,
                          Shape{values.size()}};
    ASSERT_TRUE(device_->upload(view, DType::kF32, slab.slab().at(slot)));
  }
  // The slot's value; 0: its values differ.
  float read(SlabMemory& slab, uint32_t slot) {
    std::vector<float> values(kSlotBytes / sizeof(float));
    device_->download(slab.slab().at(slot), kSlotBytes, values.data());
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
  ASSERT_TRUE(slab_->share(2, slab_->entry(0)));
  ASSERT_TRUE(slab_->share(4, slab_->entry(2)));
  EXPECT_EQ(used() - before, one);
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
  ASSERT_TRUE(slab_->share(1, slab_->entry(3)));
  slab_.reset();
  EXPECT_EQ(used(), before);
  EXPECT_EQ(device_->available_bytes(), available);
}

TEST_F(SlabSharing, ASlotOfAnotherSlabKeepsMemoryThatItsSlabLeaves) {
  const size_t before = used(), available = device_->available_bytes();
  const auto other = device_->reserve_slab(kSlotBytes, 2).value();
  ASSERT_TRUE(slab_->commit(3));
  const size_t one = used() - before;
  write(3, 7);
  ASSERT_TRUE(other->share(1, slab_->entry(3)));
  EXPECT_EQ(used() - before, one);
  EXPECT_EQ(available - device_->available_bytes(), one);
  slab_->release(3);
  ASSERT_TRUE(slab_->commit(3));
  write(3, 9);
  EXPECT_EQ(read(*other, 1), 7);
  slab_.reset();
  EXPECT_EQ(read(*other, 1), 7);
  EXPECT_EQ(used() - before, one);
  other->release(1);
  EXPECT_EQ(used(), before);
  EXPECT_EQ(device_->available_bytes(), available);
}

TEST_F(SlabSharing, AnEntryKeepsItsMemory) {
  const size_t before = used(), available = device_->available_bytes();
  ASSERT_TRUE(slab_->commit(0));
  const size_t one = used() - before;
  auto entry = slab_->entry(0);
  slab_.reset();
  EXPECT_EQ(used() - before, one);
  std::thread([&] { entry.reset(); }).join();
  EXPECT_EQ(used(), before);
  EXPECT_EQ(device_->available_bytes(), available);
}

TEST_F(SlabSharing, RandomSharesReadTheirOwnContent) {
  Random random(5);
  const size_t before = used(), available = device_->available_bytes();
  std::vector<std::unique_ptr<SlabMemory>> slabs(2);
  using Slot = std::pair<uint32_t, uint32_t>;  // slab, slot
  std::map<Slot, float> held;
  float next = 0;
  for (int turn = 0; turn < 150; ++turn) {
    const auto number = static_cast<uint32_t>(random.below(slabs.size()));
    if (slabs[number] == nullptr) slabs[number] = device_->reserve_slab(kSlotBytes, 3).value();
    SlabMemory& slab = *slabs[number];
    const Slot slot = {number, static_cast<uint32_t>(random.below(3))};
    if (held.erase(slot) > 0) {
      slab.release(slot.second);
    } else if (held.empty() || random.below(2) == 0) {
      ASSERT_TRUE(slab.commit(slot.second));
      write(slab, slot.second, held[slot] = ++next);
    } else {
      const auto with = *std::next(held.begin(), static_cast<long>(random.below(held.size())));
      ASSERT_TRUE(slab.share(slot.second, slabs[with.first.first]->entry(with.first.second)));
      held[slot] = with.second;
    }
    if (random.below(20) == 0) {  // the slab ends
      slabs[number].reset();
      std::erase_if(held, [&](const auto& one) { return one.first.first == number; });
    }
    std::set<float> contents;
    for (const auto& [each, value] : held) {
      contents.insert(value);
      ASSERT_EQ(read(*slabs[each.first], each.second), value) << turn;
    }
    ASSERT_EQ(used() - before, contents.size() * slab_->slab().stride_bytes);
    ASSERT_EQ(available - device_->available_bytes(), used() - before);
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
  ASSERT_TRUE(slab_->share(1, slab_->entry(0)));
  ASSERT_TRUE(slab_->share(2, slab_->entry(0)));
  auto other = device_->reserve_slab(kSlotBytes, 2).value();
  ASSERT_TRUE(other->share(1, slab_->entry(0)));
  simt::fail_after(0);
  EXPECT_FALSE(device_->allocate(64));
  EXPECT_FALSE(slab_->share(3, slab_->entry(0)));
  EXPECT_FALSE(other->share(0, slab_->entry(0)));
  slab_->release(0);
  slab_.reset();
  other.reset();
  const Status reset = device_->reset();
  ASSERT_TRUE(reset) << reset.error().message;
  EXPECT_EQ(used(), before);
}

}  // namespace
}  // namespace itif::device
