// Buffers and slabs: one address range, memory only for committed slots, refusals instead of
// overcommitment.
#include "device/host/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"

namespace itif::device {
namespace {

constexpr size_t kPage = 4096;

size_t resident_pages(const std::byte* data, size_t bytes) {
  std::vector<unsigned char> pages((bytes + kPage - 1) / kPage);
  EXPECT_EQ(mincore(const_cast<std::byte*>(data), bytes, pages.data()), 0);
  return static_cast<size_t>(
      std::count_if(pages.begin(), pages.end(), [](auto p) { return p & 1; }));
}

std::shared_ptr<MemoryBudget> unlimited() {
  return std::make_shared<MemoryBudget>(0);
}

TEST(HostMemory, BuffersAreZeroedAlignedAndCounted) {
  const auto budget = std::make_shared<MemoryBudget>(1 << 20);
  {
    const auto buffer = allocate_host_buffer(budget, 10000);
    ASSERT_TRUE(buffer);
    EXPECT_EQ((*buffer)->bytes(), 10000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->data()) % 64, 0u);
    EXPECT_TRUE(std::all_of((*buffer)->data(), (*buffer)->data() + 10000,
                            [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(budget->used_bytes(), 3 * kPage);
  }
  EXPECT_EQ(budget->used_bytes(), 0u);
  ASSERT_TRUE(allocate_host_buffer(budget, 0));
}

TEST(HostMemory, LargeSlotsStartOnAHugePage) {
  constexpr size_t kHugePage = 2u << 20;
  for (int i = 0; i < 3; ++i) {
    const auto slab = reserve_host_slab(unlimited(), 20 * kHugePage + 100, 3);
    ASSERT_TRUE(slab);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*slab)->slab().at(1)) % kHugePage, 0u);
  }
}

TEST(HostMemory, EnforcesTheLimit) {
  const auto budget = std::make_shared<MemoryBudget>(10 * kPage);
  auto most = allocate_host_buffer(budget, 9 * kPage);
  ASSERT_TRUE(most);
  const auto refused = allocate_host_buffer(budget, 2 * kPage);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("8.00 KiB"), std::string::npos) << refused.error().message;
  EXPECT_EQ(budget->used_bytes(), 9 * kPage);
  EXPECT_EQ(budget->available_bytes(), kPage);
  most->reset();
  EXPECT_TRUE(allocate_host_buffer(budget, 10 * kPage));
}

TEST(HostMemory, RefusesMoreThanTheMachineHas) {
  const size_t available = available_system_bytes();
  ASSERT_GT(available, 0u);
  for (const size_t bytes : {available + (size_t{1} << 30), size_t{1} << 46, SIZE_MAX - 1}) {
    const auto budget = unlimited();
    const auto refused = allocate_host_buffer(budget, bytes);
    ASSERT_FALSE(refused) << bytes;
    EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
    EXPECT_EQ(budget->used_bytes(), 0u);
  }
}

TEST(HostMemory, SlotsAreAdjacentAndOnlyCommittedOnesOccupyMemory) {
  const auto budget = unlimited();
  // A terabyte of addresses.
  const auto slab = reserve_host_slab(budget, (size_t{1} << 30) - 100, 1024);
  ASSERT_TRUE(slab) << slab.error().message;
  EXPECT_EQ((*slab)->max_slots(), 1024u);
  EXPECT_EQ((*slab)->slab().at(5) - (*slab)->slab().at(4), ptrdiff_t{1} << 30);
  EXPECT_EQ(budget->used_bytes(), 0u);
}

TEST(HostMemory, CommittingAndReleasingOneSlotTouchesNoOther) {
  const auto budget = unlimited();
  const auto slab = reserve_host_slab(budget, 3 * kPage + 1, 8);
  ASSERT_TRUE(slab);
  const kernels::Slab view = (*slab)->slab();
  ASSERT_EQ(view.stride_bytes, 4 * kPage);
  ASSERT_TRUE((*slab)->commit(2));
  ASSERT_TRUE((*slab)->commit(3));
  EXPECT_EQ(resident_pages(view.at(2), 8 * kPage), 8u);
  EXPECT_EQ(resident_pages(view.at(0), 8 * kPage), 0u);
  EXPECT_EQ(resident_pages(view.at(4), 16 * kPage), 0u);
  EXPECT_EQ(budget->used_bytes(), 8 * kPage);
  std::fill_n(view.at(2), view.stride_bytes, std::byte{1});
  std::fill_n(view.at(3), view.stride_bytes, std::byte{2});

  (*slab)->release(2);
  EXPECT_EQ(resident_pages(view.at(2), 4 * kPage), 0u);
  EXPECT_EQ(budget->used_bytes(), 4 * kPage);
  EXPECT_EQ(view.at(3)[100], std::byte{2});
  ASSERT_TRUE((*slab)->commit(2));
  EXPECT_EQ(view.at(2)[100], std::byte{0});  // a new tenant never sees the last one's weights
}

TEST(HostMemory, ASlotThatDoesNotFitFailsCleanly) {
  const auto budget = std::make_shared<MemoryBudget>(10 * kPage);
  const auto slab = reserve_host_slab(budget, 4 * kPage, 4);
  ASSERT_TRUE(slab);
  ASSERT_TRUE((*slab)->commit(0));
  ASSERT_TRUE((*slab)->commit(1));
  const Status refused = (*slab)->commit(2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(budget->used_bytes(), 8 * kPage);
  (*slab)->release(0);
  EXPECT_TRUE((*slab)->commit(2));
}

TEST(HostMemory, ADestroyedSlabFreesItsMemory) {
  const auto budget = unlimited();
  {
    const auto slab = reserve_host_slab(budget, kPage, 4);
    ASSERT_TRUE(slab);
    ASSERT_TRUE((*slab)->commit(0));
    ASSERT_TRUE((*slab)->commit(3));
  }
  EXPECT_EQ(budget->used_bytes(), 0u);
}

TEST(HostMemory, SharedSlotsCountOnceAndOutliveTheFirstHolder) {
  const auto budget = unlimited();
  const auto slab = reserve_host_slab(budget, 2 * kPage, 4).value();
  const kernels::Slab view = slab->slab();
  ASSERT_TRUE(slab->can_share());
  ASSERT_TRUE(slab->commit(0));
  std::fill_n(view.at(0), 2 * kPage, std::byte{7});
  ASSERT_TRUE(slab->share(2, slab->entry(0)));
  ASSERT_TRUE(slab->share(3, slab->entry(2)));
  EXPECT_EQ(budget->used_bytes(), 2 * kPage);
  slab->release(0);
  EXPECT_EQ(view.at(2)[100], std::byte{7});
  // The first slot comes back with memory of its own.
  ASSERT_TRUE(slab->commit(0));
  EXPECT_EQ(view.at(0)[100], std::byte{0});
  std::fill_n(view.at(0), 2 * kPage, std::byte{9});
  EXPECT_EQ(view.at(3)[100], std::byte{7});
  EXPECT_EQ(budget->used_bytes(), 4 * kPage);
  slab->release(2);
  EXPECT_EQ(view.at(3)[2 * kPage - 1], std::byte{7});
  slab->release(3);
  EXPECT_EQ(budget->used_bytes(), 2 * kPage);
  EXPECT_EQ(view.at(0)[100], std::byte{9});
}

TEST(HostMemory, ADestroyedSlabGivesSharedMemoryBackOnce) {
  const auto budget = unlimited();
  {
    const auto slab = reserve_host_slab(budget, kPage, 4).value();
    ASSERT_TRUE(slab->commit(1));
    ASSERT_TRUE(slab->share(0, slab->entry(1)));
    EXPECT_EQ(budget->used_bytes(), kPage);
  }
  EXPECT_EQ(budget->used_bytes(), 0u);
}

TEST(HostMemory, ASlotOfAnotherSlabKeepsMemoryThatItsSlabLeaves) {
  const auto budget = unlimited();
  auto first = reserve_host_slab(budget, 2 * kPage, 4).value();
  const auto second = reserve_host_slab(budget, 2 * kPage, 2).value();
  ASSERT_TRUE(first->commit(3));
  std::fill_n(first->slab().at(3), 2 * kPage, std::byte{7});
  ASSERT_TRUE(second->share(1, first->entry(3)));
  EXPECT_EQ(second->slab().at(1), first->slab().at(3));
  EXPECT_EQ(second->slab().from(5).at(1), first->slab().at(3) + 5);
  EXPECT_EQ(budget->used_bytes(), 2 * kPage);
  first->release(3);
  ASSERT_TRUE(first->commit(3));
  EXPECT_EQ(first->slab().at(3)[0], std::byte{0});
  EXPECT_EQ(budget->used_bytes(), 4 * kPage);
  first.reset();
  EXPECT_EQ(second->slab().at(1)[2 * kPage - 1], std::byte{7});
  EXPECT_EQ(budget->used_bytes(), 2 * kPage);
  second->release(1);
  EXPECT_EQ(budget->used_bytes(), 0u);
}

TEST(HostMemory, AnEntryKeepsItsMemory) {
  const auto budget = unlimited();
  auto slab = reserve_host_slab(budget, kPage, 1).value();
  ASSERT_TRUE(slab->commit(0));
  auto entry = slab->entry(0);
  slab.reset();
  EXPECT_EQ(budget->used_bytes(), kPage);
  entry.reset();
  EXPECT_EQ(budget->used_bytes(), 0u);
}

// Other slabs may hold as many entries of a slab as it has slots, and more.
TEST(HostMemory, ASlabHasAllItsSlotsWhileOthersHoldItsEntries) {
  constexpr size_t kHugePage = 2u << 20;
  for (const size_t bytes : {kPage, 8 * kHugePage}) {
    const auto budget = unlimited();
    const auto slab = reserve_host_slab(budget, bytes, 2).value();
    const auto other = reserve_host_slab(budget, bytes, 6).value();
    for (uint32_t i = 0; i < 6; ++i) {
      const uint32_t slot = i % 2;
      ASSERT_TRUE(slab->commit(slot));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(slab->slab().at(slot)) % bytes % kHugePage, 0u);
      EXPECT_EQ(slab->slab().at(slot)[bytes - 1], std::byte{0});
      slab->slab().at(slot)[bytes - 1] = std::byte(i + 1);
      ASSERT_TRUE(other->share(i, slab->entry(slot)));
      slab->release(slot);
    }
    EXPECT_EQ(budget->used_bytes(), 6 * bytes);
    for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(other->slab().at(i)[bytes - 1], std::byte(i + 1));
    for (uint32_t i = 0; i < 6; ++i) other->release(i);
    EXPECT_EQ(budget->used_bytes(), 0u);
  }
}

// Threads own a slab each, and leave entries of a third one.
TEST(HostMemory, SlabsOfOtherThreadsFreeEntries) {
  const auto budget = unlimited();
  const auto slab = reserve_host_slab(budget, kPage, 2).value();
  ASSERT_TRUE(slab->commit(0));
  ASSERT_TRUE(slab->commit(1));
  const std::array entries = {slab->entry(0), slab->entry(1)};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      const auto own = reserve_host_slab(budget, kPage, 4).value();
      for (uint32_t turn = 0; turn < 500; ++turn) {
        EXPECT_TRUE(own->share(0, entries[turn % 2]));
        EXPECT_TRUE(own->commit(1));
        EXPECT_TRUE(own->share(2, own->entry(1)));
        for (const uint32_t slot : {1, 0, 2}) own->release(slot);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget->used_bytes(), 2 * kPage);
}

// Commits, shares and releases at random, against a map from slots to contents.
TEST(HostMemory, RandomSharesReadTheirOwnContent) {
  constexpr uint32_t kSlabs = 3, kSlots = 4;
  const auto budget = unlimited();
  std::vector<std::unique_ptr<SlabMemory>> slabs(kSlabs);
  using Slot = std::pair<uint32_t, uint32_t>;  // slab, slot
  const auto at = [&](const Slot& slot) { return slabs[slot.first]->slab().at(slot.second); };
  Random random(3);
  std::map<Slot, uint8_t> held;
  for (int turn = 1; turn < 3000; ++turn) {
    const auto number = static_cast<uint32_t>(random.below(kSlabs));
    if (slabs[number] == nullptr) slabs[number] = reserve_host_slab(budget, kPage, kSlots).value();
    SlabMemory& slab = *slabs[number];
    const Slot slot = {number, static_cast<uint32_t>(random.below(kSlots))};
    if (held.erase(slot) > 0) {
      slab.release(slot.second);
    } else if (held.empty() || random.below(2) == 0) {
      ASSERT_TRUE(slab.commit(slot.second));
      ASSERT_EQ(at(slot)[7], std::byte{0}) << "memory is cleared";
      do held[slot] = static_cast<uint8_t>(1 + random.below(255));
      while (std::ranges::count(held, held[slot], &std::pair<const Slot, uint8_t>::second) > 1);
      std::fill_n(at(slot), kPage, std::byte{held[slot]});
    } else {
      const auto with = *std::next(held.begin(), static_cast<long>(random.below(held.size())));
      ASSERT_TRUE(slab.share(slot.second, slabs[with.first.first]->entry(with.first.second)));
      held[slot] = with.second;
    }
    if (random.below(50) == 0) {  // the slab ends
      slabs[number].reset();
      std::erase_if(held, [&](const auto& one) { return one.first.first == number; });
    }
    std::set<uint8_t> contents;
    for (const auto& [each, content] : held) {
      contents.insert(content);
      ASSERT_EQ(at(each)[7], std::byte{content}) << turn;
      ASSERT_EQ(at(each)[kPage - 1], std::byte{content}) << turn;
    }
    ASSERT_EQ(budget->used_bytes(), contents.size() * kPage);
  }
}

TEST(HostMemory, RefusesImpossibleAddressRanges) {
  EXPECT_FALSE(reserve_host_slab(unlimited(), SIZE_MAX / 2, 1000));
  EXPECT_FALSE(reserve_host_slab(unlimited(), size_t{1} << 50, 1));
}

TEST(HostMemory, LazyMappingsOccupyOnlyTouchedPages) {
  auto mapping = LazyMapping::reserve(1 << 20);
  ASSERT_TRUE(mapping);
  EXPECT_EQ(resident_pages(mapping->data(), 1 << 20), 0u);
  mapping->data()[5 * kPage] = std::byte{1};
  EXPECT_EQ(resident_pages(mapping->data(), 1 << 20), 1u);
  LazyMapping moved = std::move(*mapping);
  EXPECT_EQ(moved.data()[5 * kPage], std::byte{1});
}

}  // namespace
}  // namespace itif::device
