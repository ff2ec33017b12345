// Parses an Ethernet frame down to the UDP payload, or to the ARP or ICMP message for neighbour.h.
//
//   frame = Ethernet, 0 to 2 VLAN tags (802.1Q, 802.1ad), ARP | IPv4 | IPv6
//   IPv4  = header with options, UDP | ICMP
//   IPv6  = header, at most kMaxExtensionHeaders hop-by-hop or destination options, UDP | ICMPv6
//
// Pure: bytes in, struct out; safe on any input. Bytes after IP's length (padding) are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "net/address.h"
#include "net/drop_reason.h"

struct rte_mbuf;

namespace itif::net {

constexpr int kMaxExtensionHeaders = 4;

// The state of a received checksum, from the NIC's flags or from what the driver is known to omit.
enum class ChecksumState : uint8_t {
  kUnknown,  // verify in software
  kGood,
  kBad,
  // Verify in software, but also accept the bare pseudo-header sum. A kernel leaves it in UDP's
  // field for an offload that a virtual link (veth, tap) never performs.
  kPartial,
};

struct FrameInfo {
  ChecksumState ip_checksum = ChecksumState::kUnknown;
  ChecksumState l4_checksum = ChecksumState::kUnknown;
  bool vlan_stripped = false;  // the outermost tag is in vlan_tci, not in the frame
  uint16_t vlan_tci = 0;
};
// Reads the mbuf's flags. `partial_checksums`: PortInfo::partial_checksums of its port.
FrameInfo frame_info(const rte_mbuf& mbuf, bool partial_checksums) noexcept;

struct Frame {
  enum Kind : uint8_t { kUdp, kArp, kIcmp, kIcmpV6 };

  Kind kind = kUdp;
  uint8_t hop_limit = 0;        // IP's TTL or hop limit; a neighbour solicitation needs 255
  bool to_multicast = false;    // IPv6 multicast destination: ICMPv6 only
  uint16_t l3_offset = 0;       // of ARP or IP
  uint16_t l4_offset = 0;       // of UDP or ICMP
  uint16_t payload_offset = 0;  // kUdp: of its payload; else l4_offset
  uint16_t payload_bytes = 0;   // kUdp: of its payload; kIcmp, kIcmpV6: of the whole message
  Endpoint peer;                // kArp: MAC and VLAN only; ports: kUdp only
};

// Parses a frame into `out`. Returns kNone, or the reason to drop the frame. neighbour.h verifies
// ICMP checksums.
DropReason parse_frame(std::span<const std::byte> bytes, const FrameInfo& info,
                       const LocalAddresses& local, Frame& out) noexcept;

// Parses a received mbuf. A chained mbuf, which only unusual driver settings produce, is copied
// into its first segment; kMultiSegment if the tail room is too small.
DropReason parse_frame(rte_mbuf& mbuf, bool partial_checksums, const LocalAddresses& local,
                       Frame& out) noexcept;

// Returns the UDP payload. REQUIRES: `frame` was parsed from `mbuf` and is kUdp.
std::span<const std::byte> udp_payload(const rte_mbuf& mbuf, const Frame& frame) noexcept;

}  // namespace itif::net
