// The sessions of clients that have proven their address and key, and the sequence numbers that the
// worker has accepted of each, so that no captured datagram runs twice.
//
// A session is one client program's session at one address and port, with one tenant. It is created
// after its first datagram has been verified, so strangers take no memory. It is kept until the
// last address token that it used is invalid: afterwards no captured datagram of it passes the
// check of tokens. A full table refuses new sessions and never evicts: an evicted session's
// datagrams could be replayed.
//
// Owned by one worker. Allocates only at construction. A tenant may have as many sessions as are
// still free (base/share.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/huge_vector.h"
#include "net/address.h"
#include "net/key_index.h"

namespace itif::net {

// Accepts each number once. Numbers may arrive out of order, up to kWindow behind the newest.
// Source: RFC 6479, which clears a whole word of the bitmap at a time instead of shifting it.
class ReplayWindow {
 public:
  static constexpr uint64_t kWords = 32;
  static constexpr uint64_t kWindow = (kWords - 1) * 64;

  // Starts with `first` as the only number seen.
  void start(uint64_t first) noexcept;
  // Returns true if the number was not seen yet and is not too old to know.
  bool is_fresh(uint64_t number) const noexcept {
    if (number > newest_) return true;
    if (newest_ - number >= kWindow) return false;
    return (words_[number / 64 % kWords] >> (number % 64) & 1) == 0;
  }
  // Marks the number as seen. REQUIRES: is_fresh(number).
  void add(uint64_t number) noexcept;

 private:
  uint64_t newest_ = 0;
  std::array<uint64_t, kWords> words_{};
};

struct SessionLimits {
  uint32_t max_sessions = 65536;
  uint32_t max_tenants = 4096;  // tenant_index is below this
  // How long a session is kept after its last datagram: the longest validity of a token.
  uint64_t idle_ns = 60'000'000'000;
};

struct SessionKey {
  uint32_t tenant_id = 0;
  uint32_t session = 0;
  std::array<uint8_t, 16> address{};  // IPv4: the first 4 bytes
  uint16_t port = 0;
  uint8_t ip_version = 4;

  // By words: GCC 12 calls memcmp() for the array.
  bool operator==(const SessionKey& other) const noexcept {
    const auto word = [](const SessionKey& key, size_t at) {
      uint64_t value;
      std::memcpy(&value, key.address.data() + at, sizeof value);
      return value;
    };
    return ((tenant_id ^ other.tenant_id) | (session ^ other.session) |
            (word(*this, 0) ^ word(other, 0)) | (word(*this, 8) ^ word(other, 8)) |
            static_cast<uint32_t>(port ^ other.port) |
            static_cast<uint32_t>(ip_version ^ other.ip_version)) == 0;
  }
};
SessionKey session_key(uint32_t tenant_id, uint32_t session, const Endpoint& peer) noexcept;

struct Session {
  SessionKey key;
  uint32_t tenant_index = 0;
  uint64_t token = 0;           // the newest valid address token
  uint64_t token_until_ns = 0;  // its end
  uint64_t last_ns = 0;         // the last accepted datagram
  ReplayWindow window;

  // Private to SessionTable.
  bool used = false;
  uint32_t next_free = 0;
};

class SessionTable {
 public:
  // `seed`: secret, for the index's hash.
  SessionTable(const SessionLimits& limits, uint64_t seed);
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  // Returns a key's hash, which the functions below take.
  uint32_t hash_of(const SessionKey& key) const noexcept;
  // Begins to load the memory that find() will read.
  [[gnu::always_inline]] void prefetch(uint32_t hash) const noexcept { index_.prefetch(hash); }
  // Returns nullptr if there is no such session.
  Session* find(const SessionKey& key, uint32_t hash) noexcept;
  // Creates a session. Returns nullptr if the table, or the tenant's share of it, is full.
  // REQUIRES: find() returned nullptr, tenant_index < max_tenants.
  Session* create(const SessionKey& key, uint32_t hash, uint32_t tenant_index,
                  uint64_t first_sequence, uint64_t now_ns) noexcept;
  // Looks at the next `count` places and frees idle sessions there.
  void expire(uint64_t now_ns, uint32_t count) noexcept;

  uint32_t size() const noexcept { return index_.size(); }

 private:
  SessionLimits limits_;
  uint64_t seed_;
  HugeVector<Session> sessions_;
  KeyIndex index_;
  std::vector<uint32_t> tenants_;  // sessions of each tenant
  uint32_t first_free_ = 0;
  uint32_t hand_ = 0;  // the next place that expire() looks at
};

}  // namespace itif::net
