// Limits the rate of replies to unproven addresses, per source prefix: forged sources cannot direct
// more replies than that at a network, whatever their size.
//
// A bucket for each hash of an IPv4 /24 or IPv6 /56 prefix; prefixes with the same hash share one.
// Source: the generic cell rate algorithm (ITU-T I.371), with bursts of a tenth of a second, at
// least 8 replies. One owner thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "net/address.h"
#include "net/message_key.h"

namespace itif::net {

class ReplyLimiter {
 public:
  // `seed`: secret, for the hash. `per_second`: replies to a prefix; 0: none.
  ReplyLimiter(uint32_t per_second, uint64_t seed)
      : seed_(seed),
        interval_ns_(per_second == 0 ? 0 : std::max(1u, 1'000'000'000u / per_second)),
        tolerance_ns_(std::max<uint64_t>(kShortestBurst * interval_ns_, 100'000'000)) {}

  // Returns true, and counts the reply, if it may be sent.
  bool allow(const Endpoint& peer, uint64_t now_ns) noexcept {
    if (interval_ns_ == 0) return false;
    uint64_t& expected_ns = expected_ns_[hash_key(prefix(peer), seed_) % kBuckets];
    if (expected_ns > now_ns + tolerance_ns_) return false;
    expected_ns = std::max(expected_ns, now_ns) + interval_ns_;
    return true;
  }

 private:
  static constexpr size_t kBuckets = 4096;
  static constexpr uint64_t kShortestBurst = 8;

  static MessageKey prefix(const Endpoint& peer) noexcept {
    uint64_t bytes = 0;
    std::memcpy(&bytes, peer.peer_address.data(), peer.ip_version == 4 ? 3 : 7);
    return {peer.ip_version, 0, bytes};
  }

  uint64_t seed_;
  uint64_t interval_ns_;
  uint64_t tolerance_ns_;
  std::array<uint64_t, kBuckets> expected_ns_{};
};

}  // namespace itif::net
