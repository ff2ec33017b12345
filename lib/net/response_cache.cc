#include "net/response_cache.h"

#include <cstdlib>

#include "base/check.h"

namespace itif::net {
namespace {
constexpr uint32_t kNil = UINT32_MAX;
}

// Free entries are chained through `newer`.
ResponseCache::ResponseCache(const ResponseCacheLimits& limits)
    : limits_(limits),
      entries_(limits.max_entries),
      index_(limits.max_entries),
      first_free_(limits.max_entries == 0 ? kNil : 0),
      oldest_(kNil),
      newest_(kNil),
      tenants_(limits.max_tenants) {
  for (uint32_t i = 0; i + 1 < limits.max_entries; ++i) entries_[i].newer = i + 1;
}

ResponseCache::~ResponseCache() {
  for (uint32_t i = 0; i < limits_.max_entries; ++i) std::free(entries_[i].result.data);
}

bool ResponseCache::above_equal_share(uint32_t tenant_index) const noexcept {
  const TenantUse& use = tenants_[tenant_index];
  return use.bytes * active_tenants_ > limits_.max_bytes ||
         uint64_t{use.entries} * active_tenants_ > limits_.max_entries;
}

// Evicts the oldest entry of a tenant above its equal share, else the oldest entry. Such a tenant
// has many entries, so it is usually found among the kLook oldest. A tenant alone has all of them.
void ResponseCache::make_room() noexcept {
  constexpr unsigned kLook = 64;
  uint32_t victim = oldest_;
  for (unsigned i = 0; active_tenants_ > 1 && i < kLook && victim != kNil;
       ++i, victim = entries_[victim].newer)
    if (above_equal_share(entries_[victim].tenant_index)) break;
  if (victim == kNil || !above_equal_share(entries_[victim].tenant_index)) victim = oldest_;
  forget(entries_[victim]);
  ++evictions_;
}

// Begins to load what forget() needs of the entries that leave next: a full cache forgets one per
// answer, and its memory is larger than a core's cache. Entries leave mostly in the order of their
// slots: to follow their links would wait for each of them.
inline void ResponseCache::load_oldest() const noexcept {
  constexpr uint32_t kSoon = 3, kLater = 6;  // answers from now
  if (oldest_ == kNil) return;
  const auto after_oldest = [this](uint32_t steps) -> const CachedResponse& {
    const uint32_t slot = oldest_ + steps;
    return entries_[slot < limits_.max_entries ? slot : slot % limits_.max_entries];
  };
  const CachedResponse& soon = after_oldest(kSoon);
  index_.prefetch(soon.key.hash);
  __builtin_prefetch(soon.result.data, 1);
  const auto* at = reinterpret_cast<const std::byte*>(&after_oldest(kLater));
  for (size_t i = 0; i < sizeof(CachedResponse); i += 64) __builtin_prefetch(at + i, 1);
}

CachedResponse* ResponseCache::put(const Put& put) noexcept {
  erase(put.key);
  const bool keep = put.keep && put.result.bytes <= limits_.max_bytes;
  while (oldest_ != kNil &&
         (first_free_ == kNil || (keep && kept_bytes_ + put.result.bytes > limits_.max_bytes))) {
    make_room();
  }
  // Results outside the index live until they are transmitted; they may take as many bytes again.
  const bool sending = bytes_ > kept_bytes_;
  if (first_free_ == kNil || (sending && bytes_ + put.result.bytes > 2 * limits_.max_bytes)) {
    std::free(put.result.data);
    return nullptr;
  }
  const uint32_t slot = first_free_;
  CachedResponse& entry = entries_[slot];
  first_free_ = entry.newer;
  entry.key = put.key;
  entry.header = put.header;
  entry.result = put.result;
  entry.detail = put.detail;
  entry.sent_bytes = 0;
  entry.stored_ns = put.now_ns;
  entry.tenant_index = put.tenant_index;
  entry.pins = 1;
  entry.indexed = keep;
  entry.newer = kNil;
  entry.older = kNil;
  ++used_;
  bytes_ += entry.result.bytes;
  if (keep) {
    index_.insert(entry.key.hash, slot);
    kept_bytes_ += entry.result.bytes;
    TenantUse& use = tenants_[entry.tenant_index];
    use.bytes += entry.result.bytes;
    active_tenants_ += use.entries++ == 0;
    entry.older = newest_;
    (newest_ == kNil ? oldest_ : entries_[newest_].newer) = slot;
    newest_ = slot;
  }
  load_oldest();
  return &entry;
}

CachedResponse* ResponseCache::find(const HashedKey& key, uint64_t now_ns) noexcept {
  const uint32_t slot = slot_of(key);
  if (slot == KeyIndex::kAbsent) return nullptr;
  CachedResponse& entry = entries_[slot];
  return entry.stored_ns + limits_.ttl_ns > now_ns ? &entry : nullptr;
}

void ResponseCache::unpin(CachedResponse& entry) noexcept {
  DCHECK(entry.pins > 0);
  if (--entry.pins == 0 && !entry.indexed) free_entry(entry);
}

bool ResponseCache::erase(const HashedKey& key) noexcept {
  const uint32_t slot = slot_of(key);
  if (slot == KeyIndex::kAbsent) return false;
  forget(entries_[slot]);
  return true;
}

size_t ResponseCache::expire(uint64_t now_ns, size_t most) noexcept {
  size_t count = 0;
  for (; count < most && oldest_ != kNil; ++count) {
    CachedResponse& entry = entries_[oldest_];
    if (entry.stored_ns + limits_.ttl_ns > now_ns) break;
    forget(entry);
  }
  return count;
}

void ResponseCache::forget(CachedResponse& entry) noexcept {
  DCHECK(entry.indexed);
  index_.erase(entry.key.hash, slot_of(entry));
  (entry.older == kNil ? oldest_ : entries_[entry.older].newer) = entry.newer;
  (entry.newer == kNil ? newest_ : entries_[entry.newer].older) = entry.older;
  kept_bytes_ -= entry.result.bytes;
  TenantUse& use = tenants_[entry.tenant_index];
  use.bytes -= entry.result.bytes;
  active_tenants_ -= --use.entries == 0;
  entry.indexed = false;
  if (entry.pins == 0) free_entry(entry);
}

void ResponseCache::free_entry(CachedResponse& entry) noexcept {
  std::free(entry.result.data);
  bytes_ -= entry.result.bytes;
  --used_;
  entry.result = {};
  entry.newer = first_free_;
  first_free_ = slot_of(entry);
}

}  // namespace itif::net
