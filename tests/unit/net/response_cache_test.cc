#include "net/response_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "base/random.h"

namespace itif::net {
namespace {

request::ResultBuffer result_of(uint32_t bytes) {
  return {static_cast<std::byte*>(bytes == 0 ? nullptr : std::malloc(bytes)), bytes};
}
HashedKey key_of(uint64_t id, uint32_t tenant = 1) {
  return hashed({tenant, 2, id}, 5);
}

CachedResponse* put(ResponseCache& cache, uint64_t id, uint32_t bytes, uint64_t now_ns,
                    bool keep = true) {
  return cache.put({key_of(id), {}, result_of(bytes), 0, keep, now_ns});
}
// Caches a response that has been transmitted.
void put_sent(ResponseCache& cache, uint64_t id, uint32_t bytes, uint64_t now_ns) {
  cache.unpin(*put(cache, id, bytes, now_ns));
}

constexpr ResponseCacheLimits kLimits = {.max_entries = 4, .max_bytes = 1000, .ttl_ns = 100};

TEST(ResponseCache, FindsEntriesUntilTheirTtl) {
  ResponseCache cache(kLimits);
  put_sent(cache, 1, 10, 1000);
  put_sent(cache, 2, 0, 1050);  // a status
  EXPECT_NE(cache.find(key_of(1), 1099), nullptr);
  EXPECT_EQ(cache.find(key_of(1), 1100), nullptr);
  EXPECT_EQ(cache.find(key_of(3), 1000), nullptr);
  EXPECT_EQ(cache.expire(1099, 9), 0u);
  EXPECT_EQ(cache.expire(1149, 9), 1u);
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_EQ(cache.num_entries(), 1u);
  EXPECT_NE(cache.find(key_of(2), 1149), nullptr);
  EXPECT_EQ(cache.expire(1150, 9), 1u);
  EXPECT_EQ(cache.num_entries(), 0u);
  EXPECT_EQ(cache.evictions(), 0u);
}

TEST(ResponseCache, EvictsTheOldestEntries) {
  ResponseCache cache(kLimits);
  for (uint64_t id = 1; id <= 3; ++id) put_sent(cache, id, 300, 10);
  put_sent(cache, 4, 300, 11);
  EXPECT_EQ(cache.find(key_of(1), 11), nullptr);
  EXPECT_NE(cache.find(key_of(2), 11), nullptr);
  EXPECT_EQ(cache.bytes(), 900u);
  for (uint64_t id = 5; id <= 8; ++id) put_sent(cache, id, 1, 12);  // entries run out
  EXPECT_EQ(cache.find(key_of(4), 12), nullptr);
  EXPECT_EQ(cache.num_entries(), 4u);
  EXPECT_EQ(cache.bytes(), 4u);
  EXPECT_EQ(cache.evictions(), 4u);
}

TEST(ResponseCache, APinnedResultOutlivesItsEntry) {
  ResponseCache cache(kLimits);
  CachedResponse* entry = put(cache, 1, 900, 10);
  entry->result.data[899] = std::byte{7};
  put_sent(cache, 2, 500, 11);  // pushes 1 out of the index
  EXPECT_EQ(cache.find(key_of(1), 11), nullptr);
  EXPECT_EQ(entry->result.data[899], std::byte{7});
  EXPECT_EQ(cache.bytes(), 1400u);
  cache.pin(*entry);
  cache.unpin(*entry);
  EXPECT_EQ(cache.num_entries(), 2u);
  cache.unpin(*entry);
  EXPECT_EQ(cache.num_entries(), 1u);
  EXPECT_EQ(cache.bytes(), 500u);
}

TEST(ResponseCache, AnAckWhileSendingFreesAfterwards) {
  ResponseCache cache(kLimits);
  CachedResponse* entry = put(cache, 1, 100, 10);
  EXPECT_TRUE(cache.erase(key_of(1)));
  EXPECT_FALSE(cache.erase(key_of(1)));
  EXPECT_EQ(cache.bytes(), 100u);
  cache.unpin(*entry);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(ResponseCache, UncachedOrOversizedResultsLiveOnlyWhileSent) {
  ResponseCache cache(kLimits);
  put_sent(cache, 9, 10, 10);
  CachedResponse* once = put(cache, 1, 10, 10, false);
  CachedResponse* large = put(cache, 2, 1001, 10);
  EXPECT_EQ(cache.find(key_of(1), 10), nullptr);
  EXPECT_EQ(cache.find(key_of(2), 10), nullptr);
  EXPECT_NE(cache.find(key_of(9), 10), nullptr);  // they evicted no entry
  cache.unpin(*once);
  cache.unpin(*large);
  EXPECT_EQ(cache.bytes(), 10u);
}

TEST(ResponseCache, ResultsBeingSentAreBoundedToo) {
  ResponseCache cache({.max_entries = 100, .max_bytes = 1000, .ttl_ns = 100});
  std::vector<CachedResponse*> sending;
  for (uint64_t id = 1; id <= 50; ++id)
    if (CachedResponse* entry = put(cache, id, 100, 10, false)) sending.push_back(entry);
  EXPECT_EQ(sending.size(), 20u);
  EXPECT_EQ(cache.bytes(), 2000u);
  for (CachedResponse* entry : sending) cache.unpin(*entry);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(ResponseCache, ANewAnswerReplacesTheOldOne) {
  ResponseCache cache(kLimits);
  put_sent(cache, 1, 10, 10);
  put_sent(cache, 1, 20, 20);
  EXPECT_EQ(cache.find(key_of(1), 20)->result.bytes, 20u);
  EXPECT_EQ(cache.num_entries(), 1u);
}

TEST(ResponseCache, RefusesOnlyWhenEverythingIsPinned) {
  ResponseCache cache(kLimits);
  std::vector<CachedResponse*> pinned;
  for (uint64_t id = 1; id <= 4; ++id) pinned.push_back(put(cache, id, 10, 10));
  EXPECT_EQ(put(cache, 5, 10, 10), nullptr);  // its result is freed (LeakSanitizer looks)
  for (CachedResponse* entry : pinned) cache.unpin(*entry);
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_NE(put(cache, 6, 10, 10), nullptr);
}

// A tenant that exceeds its share of entries or bytes evicts its own answers only.
TEST(ResponseCache, TenantWithManyAnswersEvictsItsOwn) {
  for (const uint32_t bytes : {0u, 500u}) {
    ResponseCache cache(
        {.max_entries = bytes == 0 ? 8u : 1000u, .max_bytes = 4000, .ttl_ns = 1000});
    const auto put_of = [&](uint32_t tenant, uint64_t id) {
      cache.unpin(*cache.put({key_of(id, tenant), {}, result_of(bytes), tenant, true, 10}));
    };
    put_of(1, 1);
    put_of(1, 2);
    for (uint64_t id = 1; id <= 100; ++id) put_of(2, id);
    EXPECT_NE(cache.find(key_of(1), 10), nullptr);
    EXPECT_NE(cache.find(key_of(2), 10), nullptr);
    EXPECT_NE(cache.find(key_of(100, 2), 10), nullptr);
    EXPECT_EQ(cache.num_entries(), 8u);
    EXPECT_EQ(cache.evictions(), 94u);
  }
}

TEST(ResponseCache, Storm) {
  ResponseCache cache({.max_entries = 30, .max_bytes = 20'000, .ttl_ns = 1000});
  Random random(8);
  std::vector<CachedResponse*> pinned;
  uint64_t now_ns = 0;
  for (int step = 0; step < 100'000; ++step) {
    now_ns += random.below(40);
    const uint64_t id = random.below(60);
    switch (random.below(5)) {
      case 0:
      case 1:
        if (CachedResponse* entry =
                put(cache, id, static_cast<uint32_t>(random.below(3000)), now_ns, random.below(5)))
          pinned.push_back(entry);
        break;
      case 2:
        if (CachedResponse* entry = cache.find(key_of(id), now_ns)) {
          ASSERT_EQ(entry->key, key_of(id));
          cache.pin(*entry);
          pinned.push_back(entry);
        }
        break;
      case 3: cache.erase(key_of(id)); break;
      default: cache.expire(now_ns, 2);
    }
    while (pinned.size() > random.below(20)) {
      const size_t i = random.below(pinned.size());
      cache.unpin(*pinned[i]);
      pinned.erase(pinned.begin() + static_cast<ptrdiff_t>(i));
    }
    ASSERT_LE(cache.num_entries(), 30u);
  }
  for (CachedResponse* entry : pinned) cache.unpin(*entry);
  cache.expire(now_ns + 1000, 1000);
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_EQ(cache.num_entries(), 0u);
}

}  // namespace
}  // namespace itif::net
