// How a message is cut into pieces: arithmetic that both ends share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/header.h"

namespace itif::wire {

constexpr bool fragment_size_valid(uint32_t fragment_bytes) noexcept {
  return fragment_bytes >= kMinFragmentBytes && fragment_bytes <= kMaxFragmentBytes &&
         fragment_bytes % 4 == 0;
}

// Pieces of a message; one, without payload, if it is empty. REQUIRES: fragment_size_valid().
constexpr uint32_t num_pieces(uint32_t total_bytes, uint32_t fragment_bytes) noexcept {
  return total_bytes == 0 ? 1 : (total_bytes - 1) / fragment_bytes + 1;
}

// Payload of the piece at `offset`. REQUIRES: offset ≤ total_bytes.
constexpr uint32_t piece_bytes(uint32_t total_bytes, uint32_t fragment_bytes,
                               uint32_t offset) noexcept {
  const uint32_t rest = total_bytes - offset;
  return rest < fragment_bytes ? rest : fragment_bytes;
}

// The largest fragment whose datagram fits an IP packet of mtu_bytes without fragmentation,
// whatever the IP version and the authentication; 0 if even the smallest does not fit.
constexpr uint32_t fragment_bytes_for_mtu(uint32_t mtu_bytes) noexcept {
  constexpr uint32_t kIpv6AndUdpBytes = 48;
  constexpr uint32_t kOverhead = kIpv6AndUdpBytes + kHeaderBytes + kTagBytes;
  if (mtu_bytes < kOverhead + kMinFragmentBytes) return 0;
  const uint32_t fits = (mtu_bytes - kOverhead) & ~3u;
  return fits < kMaxFragmentBytes ? fits : kMaxFragmentBytes;
}
static_assert(fragment_bytes_for_mtu(1500) == kDefaultFragmentBytes);

// Pieces of a response need not be smaller than what every IPv6 path carries.
constexpr uint32_t kMinResponseFragmentBytes = fragment_bytes_for_mtu(1280);

// How a response to a request of `request_fragment_bytes` is cut: as the server is configured, but no
// larger than what the client shows to fit its path.
constexpr uint32_t response_fragment_bytes(uint32_t configured_fragment_bytes,
                                           uint32_t request_fragment_bytes) noexcept {
  const uint32_t fits = request_fragment_bytes > kMinResponseFragmentBytes
                            ? request_fragment_bytes
                            : kMinResponseFragmentBytes;
  return configured_fragment_bytes < fits ? configured_fragment_bytes : fits;
}

// A resend is no larger than a piece of the message it is about.
constexpr size_t max_resend_ranges(uint32_t fragment_bytes) noexcept {
  const size_t fits = fragment_bytes / 8;
  return fits < kMaxRanges ? fits : kMaxRanges;
}

}  // namespace itif::wire
