// What finished requests answered, for a while: a repeated request id is answered from here and
// runs nothing, a client's resend is served from here, an ack ends it.
//
// Owned by one worker. Owns the ResultBuffers (std::free). Bounded in entries and bytes; entries
// are allocated at construction. The oldest go first, by age (TTL) or for room; for room, those of
// tenants that have more than an equal share go before others', so that a tenant with many or large
// answers pushes out its own. An entry that is being transmitted is pinned: it may leave the index,
// but its bytes stay until the last unpin().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "net/key_index.h"
#include "net/message_key.h"
#include "request/request.h"
#include "wire/header.h"

namespace itif::net {

struct ResponseCacheLimits {
  uint32_t max_entries = 65536;
  uint64_t max_bytes = 64u << 20;
  uint64_t ttl_ns = 2'000'000'000;
  uint32_t max_tenants = 4096;  // tenant_index is below
};

struct CachedResponse {
  MessageKey key;
  // The message's header, but for what differs per datagram: type kResponse or kStatus, kinds,
  // status, total_bytes, fragment_bytes, aux. Auth and epoch are those of whoever is answered.
  wire::Header header;
  request::ResultBuffer result;  // empty for a status
  uint64_t stored_ns = 0;
  uint32_t tenant_index = 0;

  // ResponseCache's own.
  uint32_t pins = 0;
  bool indexed = false;
  uint32_t older = UINT32_MAX;
  uint32_t newer = UINT32_MAX;
};

class ResponseCache {
 public:
  ResponseCache(const ResponseCacheLimits& limits, uint64_t seed);
  ResponseCache(const ResponseCache&) = delete;
  ResponseCache& operator=(const ResponseCache&) = delete;
  ~ResponseCache();

  // Takes `result` (also when it fails: then it is freed). The entry comes pinned once: unpin() it
  // when it has been transmitted. An older answer under the same key is forgotten. With keep =
  // false, and when it alone is larger than the cache, it cannot be found again and dies with its
  // last pin. nullptr: every entry is pinned, or results that are being transmitted take as much
  // as the cache.
  struct Put {
    MessageKey key;
    wire::Header header;
    request::ResultBuffer result;
    uint32_t tenant_index = 0;
    bool keep = true;
    uint64_t now_ns = 0;
  };
  CachedResponse* put(const Put& put) noexcept;

  // nullptr if there is none or it has outlived the TTL.
  CachedResponse* find(const MessageKey& key, uint64_t now_ns) noexcept;
  void pin(CachedResponse& entry) noexcept { ++entry.pins; }
  void unpin(CachedResponse& entry) noexcept;
  // An ack. False if there was none.
  bool erase(const MessageKey& key) noexcept;
  // Forgets what has outlived the TTL, oldest first, at most `most`; returns how many.
  size_t expire(uint64_t now_ns, size_t most) noexcept;

  uint32_t num_entries() const noexcept { return used_; }
  uint64_t bytes() const noexcept { return bytes_; }
  uint64_t evictions() const noexcept { return evictions_; }  // for room, before their time; tests

 private:
  struct TenantUse {
    uint64_t bytes = 0;
    uint32_t entries = 0;
  };
  void make_room() noexcept;
  bool above_equal_share(uint32_t tenant_index) const noexcept;
  void forget(CachedResponse& entry) noexcept;  // out of index and list; freed if not pinned
  void free_entry(CachedResponse& entry) noexcept;
  uint32_t slot_of(const CachedResponse& entry) const noexcept {
    return static_cast<uint32_t>(&entry - entries_.get());
  }

  ResponseCacheLimits limits_;
  std::unique_ptr<CachedResponse[]> entries_;
  KeyIndex index_;
  uint32_t first_free_;
  uint32_t oldest_;
  uint32_t newest_;
  uint32_t used_ = 0;
  uint64_t bytes_ = 0;       // pinned ones included
  uint64_t kept_bytes_ = 0;  // of what can be found: the bound
  uint64_t evictions_ = 0;
  std::vector<TenantUse> tenants_;  // of what can be found
  uint32_t active_tenants_ = 0;     // that have something here
};

}  // namespace itif::net
