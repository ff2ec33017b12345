#include "net/sessions.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/share.h"

namespace itif::net {

void ReplayWindow::start(uint64_t first) noexcept {
  words_.fill(0);
  newest_ = first;
  words_[first / 64 % kWords] = uint64_t{1} << (first % 64);
}

void ReplayWindow::add(uint64_t number) noexcept {
  if (number > newest_) {
    const uint64_t passed = number / 64 - newest_ / 64;
    for (uint64_t i = 1; i <= std::min(passed, kWords); ++i)
      words_[(newest_ / 64 + i) % kWords] = 0;
    newest_ = number;
  }
  words_[number / 64 % kWords] |= uint64_t{1} << (number % 64);
}

SessionKey session_key(uint32_t tenant_id, uint32_t session, const Endpoint& peer) noexcept {
  return {tenant_id, session, peer.peer_address, peer.peer_port, peer.ip_version};
}

SessionTable::SessionTable(const SessionLimits& limits, uint64_t seed)
    : limits_(limits),
      seed_(seed),
      sessions_(limits.max_sessions),
      index_(limits.max_sessions),
      tenants_(limits.max_tenants) {
  for (uint32_t i = 0; i < limits.max_sessions; ++i) sessions_[i].next_free = i + 1;
}

// With the secret seed, so that a client cannot choose addresses with equal hashes.
uint32_t SessionTable::hash_of(const SessionKey& key) const noexcept {
  uint64_t halves[2];
  std::memcpy(halves, key.address.data(), sizeof halves);
  const MessageKey address{static_cast<uint32_t>(halves[0]), static_cast<uint32_t>(halves[0] >> 32),
                           halves[1] ^ (uint64_t{key.port} << 8 | key.ip_version) << 40};
  return hashed({key.tenant_id, key.session, hash_key(address, seed_)}, seed_).hash;
}

Session* SessionTable::find(const SessionKey& key, uint32_t hash) noexcept {
  const uint32_t slot = index_.find(hash, [&](uint32_t at) { return sessions_[at].key == key; });
  return slot == KeyIndex::kAbsent ? nullptr : &sessions_[slot];
}

Session* SessionTable::create(const SessionKey& key, uint32_t hash, uint32_t tenant_index,
                              uint64_t first_sequence, uint64_t now_ns) noexcept {
  CHECK(tenant_index < tenants_.size());
  if (first_free_ == limits_.max_sessions ||
      !within_share(tenants_[tenant_index], 1, size(), limits_.max_sessions))
    return nullptr;
  const uint32_t slot = first_free_;
  Session& session = sessions_[slot];
  first_free_ = session.next_free;
  session.key = key;
  session.tenant_index = tenant_index;
  session.token = session.token_until_ns = 0;
  session.last_ns = now_ns;
  session.window.start(first_sequence);
  session.used = true;
  index_.insert(hash, slot);
  ++tenants_[tenant_index];
  return &session;
}

void SessionTable::expire(uint64_t now_ns, uint32_t count) noexcept {
  for (uint32_t i = 0; i < count; ++i) {
    Session& session = sessions_[hand_];
    if (session.used && now_ns - session.last_ns > limits_.idle_ns) {
      index_.erase(hash_of(session.key), hand_);
      --tenants_[session.tenant_index];
      session.used = false;
      session.next_free = first_free_;
      first_free_ = hand_;
    }
    hand_ = hand_ + 1 == limits_.max_sessions ? 0 : hand_ + 1;
  }
}

}  // namespace itif::net
