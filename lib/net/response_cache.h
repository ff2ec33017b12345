// Keeps the answers of finished requests for a while. It answers a repeated request id without
// running anything and serves a client's resend; an ack removes the entry.
//
// Owned by one worker. Owns the ResultBuffers (std::free). Bounded in entries and bytes; entries
// are allocated at construction. Entries leave oldest first, by age (TTL) or to make room. To make
// room, entries of tenants above an equal share leave first, so a tenant with many or large answers
// evicts its own. An entry that is being transmitted is pinned: it may leave the index, but its
// bytes stay until the last unpin().
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_vector.h"
#include "net/key_index.h"
#include "net/message_key.h"
#include "request/request.h"
#include "wire/header.h"

namespace itif::net {

struct ResponseCacheLimits {
  uint32_t max_entries = 65536;
  uint64_t max_bytes = 64u << 20;
  uint64_t ttl_ns = 10'000'000'000;
  uint32_t max_tenants = 4096;  // tenant_index is below this
};

struct CachedResponse {
  HashedKey key;
  // The header fields shared by the message's datagrams: type (kResponse or kStatus), kinds,
  // status, total_bytes, fragment_bytes, aux. Auth and key epoch are set from the datagram being
  // answered.
  wire::Header header;
  request::ResultBuffer result;  // empty for a status
  const char* detail = "";       // a status's text: a literal
  uint64_t stored_ns = 0;
  uint64_t sent_bytes = 0;  // by repeated transmissions; see may_send()
  uint32_t tenant_index = 0;

  // Returns true, and counts the bytes, if the answer may be sent once more: all repetitions
  // together send it at most kMostRepeats times, so that a client that asks again and again cannot
  // draw traffic without end. `bytes`: of the payload to send.
  static constexpr uint64_t kMostRepeats = 8;
  bool may_send(uint64_t bytes) noexcept {
    constexpr uint64_t kDatagramBytes = 128;  // headers of a small answer
    const uint64_t limit = kMostRepeats * (uint64_t{header.total_bytes} + 8 * kDatagramBytes);
    if (sent_bytes + bytes + kDatagramBytes > limit) return false;
    sent_bytes += bytes + kDatagramBytes;
    return true;
  }

  // Private to ResponseCache.
  uint32_t pins = 0;
  bool indexed = false;
  uint32_t older = UINT32_MAX;
  uint32_t newer = UINT32_MAX;
};

class ResponseCache {
 public:
  explicit ResponseCache(const ResponseCacheLimits& limits);
  ResponseCache(const ResponseCache&) = delete;
  ResponseCache& operator=(const ResponseCache&) = delete;
  ~ResponseCache();

  // Takes over `result`, which is freed on failure. Replaces an older answer under the same key.
  // The entry is pinned once: unpin() it after its transmission. With keep = false, or if the
  // result alone exceeds max_bytes, find() does not return the entry and its last unpin() frees it.
  // Returns nullptr if every entry is pinned, or if results that are only being transmitted take as
  // much as the cache.
  struct Put {
    HashedKey key;
    const wire::Header& header;
    request::ResultBuffer result;
    uint32_t tenant_index = 0;
    bool keep = true;
    uint64_t now_ns = 0;
    const char* detail = "";  // a status's text: a literal
  };
  CachedResponse* put(const Put& put) noexcept;

  // Begins to load the memory that find() will read.
  [[gnu::always_inline]] void prefetch(const HashedKey& key) const noexcept {
    index_.prefetch(key.hash);
  }
  // Returns nullptr if there is no entry or it has outlived the TTL.
  CachedResponse* find(const HashedKey& key, uint64_t now_ns) noexcept;
  void pin(CachedResponse& entry) noexcept { ++entry.pins; }
  void unpin(CachedResponse& entry) noexcept;
  // Removes the entry (on an ack). Returns false if there was none.
  bool erase(const HashedKey& key) noexcept;
  // Removes entries that have outlived the TTL, oldest first, at most `most`; returns their number.
  size_t expire(uint64_t now_ns, size_t most) noexcept;

  uint32_t num_entries() const noexcept { return used_; }
  uint64_t bytes() const noexcept { return bytes_; }
  uint64_t evictions() const noexcept { return evictions_; }  // to make room; for tests

 private:
  struct TenantUse {
    uint64_t bytes = 0;
    uint32_t entries = 0;
  };
  void make_room() noexcept;
  // Inline, because GCC 12 removes calls of functions that only prefetch.
  [[gnu::always_inline]] inline void load_oldest() const noexcept;
  bool above_equal_share(uint32_t tenant_index) const noexcept;
  // Removes the entry from index and list, and frees it unless it is pinned.
  void forget(CachedResponse& entry) noexcept;
  void free_entry(CachedResponse& entry) noexcept;
  uint32_t slot_of(const HashedKey& key) const noexcept {  // KeyIndex::kAbsent: none
    return index_.find(key.hash, [&](uint32_t slot) { return entries_[slot].key == key; });
  }
  uint32_t slot_of(const CachedResponse& entry) const noexcept {
    return static_cast<uint32_t>(&entry - entries_.data());
  }

  ResponseCacheLimits limits_;
  HugeVector<CachedResponse> entries_;
  KeyIndex index_;
  uint32_t first_free_;
  uint32_t oldest_;
  uint32_t newest_;
  uint32_t used_ = 0;
  uint64_t bytes_ = 0;       // of all entries, including pinned ones that are not indexed
  uint64_t kept_bytes_ = 0;  // of indexed entries; at most max_bytes
  uint64_t evictions_ = 0;
  HugeVector<TenantUse> tenants_;  // of indexed entries
  uint32_t active_tenants_ = 0;    // tenants with indexed entries
};

}  // namespace itif::net
