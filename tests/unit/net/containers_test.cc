// The fixed containers against plain models, under random operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/random.h"
#include "net/key_index.h"
#include "net/message_key.h"
#include "net/piece_arena.h"

namespace itif::net {
namespace {

// Ids share hashes: two of them for each of 150.
TEST(KeyIndex, AgreesWithAMap) {
  constexpr uint32_t kCapacity = 100;
  Random random(7);
  KeyIndex index(kCapacity);
  std::array<uint64_t, kCapacity> ids;  // by slot
  std::vector<uint32_t> free_slots(kCapacity);
  std::iota(free_slots.begin(), free_slots.end(), 0);
  std::map<uint64_t, uint32_t> model;
  const auto hash_of = [](uint64_t id) { return hashed({1, 2, id / 2}, 42).hash; };
  for (int step = 0; step < 200'000; ++step) {
    const uint64_t id = random.below(300);
    const uint32_t hash = hash_of(id);
    const uint32_t slot = index.find(hash, [&](uint32_t at) { return ids[at] == id; });
    const auto found = model.find(id);
    if (found != model.end()) {
      ASSERT_EQ(slot, found->second);
      if (random.below(2) == 0) {
        index.erase(hash, slot);
        free_slots.push_back(slot);
        model.erase(found);
      }
    } else {
      ASSERT_EQ(slot, KeyIndex::kAbsent);
      if (model.size() < kCapacity) {
        const size_t any = random.below(free_slots.size());
        std::swap(free_slots[any], free_slots.back());
        ids[free_slots.back()] = id;
        index.insert(hash, free_slots.back());
        model[id] = free_slots.back();
        free_slots.pop_back();
      }
    }
    ASSERT_EQ(index.size(), model.size());
  }
}

// All hashes are equal: only the owner's comparison can tell the elements apart.
TEST(KeyIndex, TheOwnerTellsEqualHashesApart) {
  KeyIndex index(4);
  for (uint32_t slot : {2, 0, 3}) index.insert(7, slot);
  const auto find = [&](uint32_t wanted) {
    return index.find(7, [&](uint32_t slot) { return slot == wanted; });
  };
  for (uint32_t slot : {0, 2, 3}) EXPECT_EQ(find(slot), slot);
  EXPECT_EQ(find(1), KeyIndex::kAbsent);
  index.erase(7, 0);
  EXPECT_EQ(find(0), KeyIndex::kAbsent);
  for (uint32_t slot : {2, 3}) EXPECT_EQ(find(slot), slot);
}

// Keys that differ in few bits must spread over the buckets, for any seed.
TEST(KeyIndex, SequentialKeysSpread) {
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0x123456789abcdef0}}) {
    std::vector<int> load(1024);
    for (uint64_t id = 0; id < 1024; ++id) ++load[hash_key({1, 1, id}, seed) % 1024];
    EXPECT_LT(*std::max_element(load.begin(), load.end()), 12) << seed;
    std::fill(load.begin(), load.end(), 0);
    for (uint32_t session = 0; session < 1024; ++session)
      ++load[hash_key({1, session, 1}, seed) % 1024];
    EXPECT_LT(*std::max_element(load.begin(), load.end()), 12) << seed;
  }
}

TEST(PieceArena, BlocksNeverOverlapAndMergeBack) {
  Random random(11);
  PieceArena arena(4096);
  EXPECT_EQ(arena.capacity(), 4096u);
  std::map<uint32_t, uint32_t> live;  // first → pieces
  for (int step = 0; step < 50'000; ++step) {
    if (random.below(2) == 0) {
      const auto wanted =
          static_cast<uint32_t>(1 + random.below(random.below(8) == 0 ? 4096 : 200));
      const uint32_t first = arena.allocate(wanted);
      if (first == PieceArena::kNone) continue;
      ASSERT_LE(first + wanted, arena.capacity());
      const auto after = live.lower_bound(first);
      ASSERT_TRUE(after == live.end() || first + wanted <= after->first);
      ASSERT_TRUE(after == live.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= first);
      for (uint32_t i = 0; i < (wanted + 63) / 64; ++i) {
        ASSERT_EQ(arena.arrived(first)[i], 0u);
        arena.arrived(first)[i] = ~uint64_t{0};
      }
      live[first] = wanted;
    } else if (!live.empty()) {
      const auto victim =
          std::next(live.begin(), static_cast<ptrdiff_t>(random.below(live.size())));
      arena.release(victim->first, victim->second);
      live.erase(victim);
    }
  }
  for (const auto& [first, pieces] : live) arena.release(first, pieces);
  EXPECT_EQ(arena.free_pieces(), 4096u);
  EXPECT_EQ(arena.allocate(4096), 0u);
  EXPECT_EQ(arena.allocate(1), PieceArena::kNone);
}

TEST(PieceArena, RefusesOversizedAndEmptyBlocks) {
  PieceArena arena(100);
  EXPECT_EQ(arena.capacity(), 128u);
  EXPECT_EQ(arena.allocate(129), PieceArena::kNone);
  EXPECT_EQ(arena.allocate(0), PieceArena::kNone);
  EXPECT_NE(arena.allocate(65), PieceArena::kNone);
}

}  // namespace
}  // namespace itif::net
