// Identifies a request on one worker: tenant, client session, request id.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/header.h"

namespace itif::net {

struct MessageKey {
  uint32_t tenant_id = 0;
  uint32_t session = 0;
  uint64_t request_id = 0;

  bool operator==(const MessageKey&) const = default;
};

inline MessageKey message_key(const wire::Header& header) noexcept {
  return {header.tenant_id, header.session, header.request_id};
}

// Hashes a key. `seed` is secret, because clients choose session and request id and must not be
// able to choose collisions. Two folded 64×64 multiplies, as in wyhash; the seed's high half enters
// both factors of the first.
inline uint64_t hash_key(const MessageKey& key, uint64_t seed) noexcept {
  const auto fold = [](uint64_t a, uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const uint64_t ids = static_cast<uint64_t>(key.tenant_id) << 32 | key.session;
  const uint64_t first = fold(ids ^ seed, key.request_id ^ 0x9e3779b97f4a7c15ull ^ (seed >> 32));
  return fold(first ^ 0xa0761d6478bd642full, seed ^ 0xe7037ed1a0b428dbull);
}

// A key with its hash, which a worker computes once per datagram for all of its tables.
struct HashedKey {
  HashedKey() = default;
  HashedKey(const MessageKey& of, uint32_t its_hash) noexcept : key(of), hash(its_hash) {}

  MessageKey key;
  uint32_t hash = 0;

  bool operator==(const HashedKey& other) const noexcept { return key == other.key; }
};
inline HashedKey hashed(const MessageKey& key, uint64_t seed) noexcept {
  return {key, static_cast<uint32_t>(hash_key(key, seed))};
}

}  // namespace itif::net
