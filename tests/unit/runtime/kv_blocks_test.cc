// The accounting of K/V blocks compared with a naive count of their holders.
#include "runtime/generate/kv_blocks.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"

namespace itif::runtime {
namespace {

TEST(KvBlocks, RandomUseAgreesWithCounting) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const auto total = static_cast<uint32_t>(1 + random.below(12));
    KvBlocks blocks(total);
    std::map<uint32_t, uint32_t> holders;  // of blocks with at least one
    std::vector<uint32_t> held;            // one entry per holder
    uint32_t reserved = 0;
    for (int i = 0; i < 400; ++i) {
      switch (random.below(5)) {
        case 0: {
          const auto count = static_cast<uint32_t>(random.below(total + 2));
          const bool fits = reserved + count <= total;
          ASSERT_EQ(blocks.reserve(count), fits);
          if (fits) reserved += count;
          break;
        }
        case 1: {
          if (holders.size() >= reserved) break;
          const uint32_t block = blocks.take();
          ASSERT_LT(block, total);
          ASSERT_FALSE(holders.contains(block)) << "in use already";
          holders[block] = 1;
          held.push_back(block);
          break;
        }
        case 2: {
          if (held.empty()) break;
          const uint32_t block = held[random.below(held.size())];
          blocks.share(block);
          ++holders[block];
          held.push_back(block);
          break;
        }
        case 3: {
          if (held.empty()) break;
          const size_t which = random.below(held.size());
          const uint32_t block = held[which];
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
          blocks.release(block);
          if (--holders[block] == 0) holders.erase(block);
          break;
        }
        case 4: {
          const auto unused = static_cast<uint32_t>(reserved - holders.size());
          const auto count = static_cast<uint32_t>(random.below(unused + 1));
          blocks.unreserve(count);
          reserved -= count;
          break;
        }
      }
      ASSERT_EQ(blocks.num_used(), holders.size());
      ASSERT_EQ(blocks.num_reserved(), reserved);
      for (const auto& [block, count] : holders) ASSERT_EQ(blocks.is_shared(block), count > 1);
    }
  }
}

TEST(KvBlocks, TakingMoreThanReservedAborts) {
  KvBlocks blocks(2);
  ASSERT_TRUE(blocks.reserve(1));
  blocks.take();
  EXPECT_DEATH(blocks.take(), "");
  EXPECT_FALSE(blocks.reserve(2));
  EXPECT_DEATH(blocks.unreserve(1), "");
}

}  // namespace
}  // namespace itif::runtime
