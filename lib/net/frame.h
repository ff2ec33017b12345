// Parses an Ethernet frame down to UDP's payload, or to what neighbour.h answers.
//
//   frame = Ethernet, 0 to 2 VLAN tags (802.1Q, 802.1ad), ARP | IPv4 | IPv6
//   IPv4  = header with options, UDP | ICMP
//   IPv6  = header, at most kMaxExtensionHeaders hop-by-hop or destination options, UDP | ICMPv6
//
// Pure: bytes in, struct out; safe on any input; bytes behind IP's length (padding) are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "net/address.h"
#include "net/drop_reason.h"

struct rte_mbuf;

namespace itif::net {

constexpr int kMaxExtensionHeaders = 4;

// What a NIC said of a checksum, or what the driver is known to leave undone.
enum class ChecksumState : uint8_t {
  kUnknown,  // check it here
  kGood,
  kBad,
  kPartial,  // check it here, but accept the bare pseudo-header sum that a kernel leaves in UDP's
             // field for an offload which a virtual link (veth, tap) never performs
};

struct FrameInfo {
  ChecksumState ip_checksum = ChecksumState::kUnknown;
  ChecksumState l4_checksum = ChecksumState::kUnknown;
  bool vlan_stripped = false;  // the outermost tag is in vlan_tci instead of the frame
  uint16_t vlan_tci = 0;
};
// `partial_checksums`: the port is a virtual link (PortInfo::partial_checksums).
FrameInfo frame_info(const rte_mbuf& mbuf, bool partial_checksums) noexcept;

struct Frame {
  enum Kind : uint8_t { kUdp, kArp, kIcmp, kIcmpV6 };

  Kind kind = kUdp;
  uint8_t hop_limit = 0;        // IP's TTL or hop limit; a neighbour solicitation needs 255
  bool to_multicast = false;    // IPv6 multicast destination: neighbour solicitations only
  uint16_t l3_offset = 0;       // of ARP or IP
  uint16_t l4_offset = 0;       // of UDP or ICMP
  uint16_t payload_offset = 0;  // kUdp: of its payload; else l4_offset
  uint16_t payload_bytes = 0;   // kUdp: of its payload; kIcmp, kIcmpV6: of the whole message
  Endpoint peer;                // kArp: MAC and VLAN only; ports: kUdp only
};

// kNone and `out`, or why the frame ends here. ICMP checksums are neighbour.h's business.
DropReason parse_frame(std::span<const std::byte> bytes, const FrameInfo& info,
                       const LocalAddresses& local, Frame& out) noexcept;

// The same for a received mbuf. A chained mbuf is made contiguous if its tail room allows (then it
// is copied once, which only oddly configured drivers ask for), else kMultiSegment.
DropReason parse_frame(rte_mbuf& mbuf, bool partial_checksums, const LocalAddresses& local,
                       Frame& out) noexcept;

// UDP's payload. REQUIRES: kind kUdp, parsed from this mbuf.
std::span<const std::byte> udp_payload(const rte_mbuf& mbuf, const Frame& frame) noexcept;

}  // namespace itif::net
