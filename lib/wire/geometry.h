// Arithmetic for cutting a message into pieces, shared by client and server.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/header.h"

namespace itif::wire {

constexpr bool fragment_size_valid(uint32_t fragment_bytes) noexcept {
  return fragment_bytes >= kMinFragmentBytes && fragment_bytes <= kMaxFragmentBytes &&
         fragment_bytes % 4 == 0;
}

// Returns the number of pieces of a message. An empty message has one piece, without payload.
// REQUIRES: fragment_size_valid().
constexpr uint32_t num_pieces(uint32_t total_bytes, uint32_t fragment_bytes) noexcept {
  return total_bytes == 0 ? 1 : (total_bytes - 1) / fragment_bytes + 1;
}

// Returns the payload bytes of the piece at `offset`. REQUIRES: offset ≤ total_bytes.
constexpr uint32_t piece_bytes(uint32_t total_bytes, uint32_t fragment_bytes,
                               uint32_t offset) noexcept {
  const uint32_t rest = total_bytes - offset;
  return rest < fragment_bytes ? rest : fragment_bytes;
}

// Returns the largest fragment size whose datagram fits an unfragmented IP packet of mtu_bytes, for
// any IP version and authentication; 0 if even the smallest size does not fit.
constexpr uint32_t fragment_bytes_for_mtu(uint32_t mtu_bytes) noexcept {
  constexpr uint32_t kIpv6AndUdpBytes = 48;
  constexpr uint32_t kOverhead = kIpv6AndUdpBytes + kHeaderBytes + kTagBytes;
  if (mtu_bytes < kOverhead + kMinFragmentBytes) return 0;
  const uint32_t fits = (mtu_bytes - kOverhead) & ~3u;
  return fits < kMaxFragmentBytes ? fits : kMaxFragmentBytes;
}
static_assert(fragment_bytes_for_mtu(1500) == kDefaultFragmentBytes);

// Response pieces are not limited below this size: every IPv6 path carries 1280-byte packets.
constexpr uint32_t kMinResponseFragmentBytes = fragment_bytes_for_mtu(1280);

// Returns the fragment size of a response: the configured size, but no larger than the request's
// pieces, which are known to fit the client's path, or kMinResponseFragmentBytes.
constexpr uint32_t response_fragment_bytes(uint32_t configured_fragment_bytes,
                                           uint32_t request_fragment_bytes) noexcept {
  const uint32_t fits = request_fragment_bytes > kMinResponseFragmentBytes
                            ? request_fragment_bytes
                            : kMinResponseFragmentBytes;
  return configured_fragment_bytes < fits ? configured_fragment_bytes : fits;
}

// Returns the most ranges of a resend: its payload is no larger than a piece of the message that it
// refers to.
constexpr size_t max_resend_ranges(uint32_t fragment_bytes) noexcept {
  const size_t fits = fragment_bytes / 8;
  return fits < kMaxRanges ? fits : kMaxRanges;
}

}  // namespace itif::wire
