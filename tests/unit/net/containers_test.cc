// The fixed containers against plain models, under random operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "net/key_index.h"
#include "net/piece_arena.h"

namespace itif::net {
namespace {

TEST(KeyIndex, AgreesWithAMap) {
  constexpr uint32_t kCapacity = 100;
  Random random(7);
  KeyIndex index(kCapacity);
  std::map<uint64_t, uint32_t> model;
  for (int step = 0; step < 200'000; ++step) {
    const uint64_t id = random.below(300);
    const HashedKey key =
        hashed({static_cast<uint32_t>(id % 3), static_cast<uint32_t>(id / 100), id}, 42);
    const auto found = model.find(id);
    if (found != model.end()) {
      ASSERT_EQ(index.find(key), found->second);
      if (random.below(2) == 0) {
        ASSERT_TRUE(index.erase(key));
        model.erase(found);
      }
    } else {
      ASSERT_EQ(index.find(key), KeyIndex::kAbsent);
      ASSERT_FALSE(index.erase(key));
      if (model.size() < kCapacity) {
        index.insert(key, static_cast<uint32_t>(step));
        model[id] = static_cast<uint32_t>(step);
      }
    }
    ASSERT_EQ(index.size(), model.size());
  }
}

TEST(KeyIndex, EveryFieldNamesTheKey) {
  KeyIndex index(4);
  index.insert({{1, 2, 3}, 0}, 0);  // the same hash for all: only the key can tell them apart
  EXPECT_EQ(index.find({{1, 2, 3}, 0}), 0u);
  EXPECT_EQ(index.find({{2, 2, 3}, 0}), KeyIndex::kAbsent);
  EXPECT_EQ(index.find({{1, 3, 3}, 0}), KeyIndex::kAbsent);
  EXPECT_EQ(index.find({{1, 2, 4}, 0}), KeyIndex::kAbsent);
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
