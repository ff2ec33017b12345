// Writes the headers of an outgoing frame: Ethernet, VLAN tags, IPv4 (DF) or IPv6, UDP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "net/address.h"

struct rte_mbuf;

namespace itif::net {

// The checksums that the port computes.
struct TxOffloads {
  bool ipv4_checksum = false;
  bool udp_checksum = false;
};

// Returns the bytes before IP's payload: Ethernet 14, 4 per VLAN tag, IPv4 20 or IPv6 40.
size_t l3_header_bytes(const Endpoint& peer) noexcept;
// Returns the bytes before UDP's payload.
inline size_t udp_header_bytes(const Endpoint& peer) noexcept {
  return l3_header_bytes(peer) + 8;
}

// Returns the space for UDP's payload in a fresh mbuf, up to the end of its buffer; empty if the
// headers do not fit.
std::span<std::byte> udp_payload_room(rte_mbuf& mbuf, const Endpoint& peer) noexcept;

// Writes the headers before the payload in udp_payload_room(), and sets lengths and offload flags.
// IPv4: DF, TTL 64, identification 0 (RFC 6864). IPv6: UDP's checksum is always present. REQUIRES:
// payload_bytes fits udp_payload_room() and IP's 16-bit length.
void write_udp_headers(rte_mbuf& mbuf, const Endpoint& peer, size_t payload_bytes,
                       const TxOffloads& offloads) noexcept;

// Writes Ethernet, VLAN tags and IP at `out`, for `l4_bytes` of `protocol`; computes IP's checksum
// in software. Returns l3_header_bytes(peer).
size_t write_l3_headers(std::byte* out, const Endpoint& peer, uint8_t protocol, size_t l4_bytes,
                        uint8_t hop_limit) noexcept;

// Writes Ethernet and VLAN tags at `out`. Returns their bytes.
size_t write_l2_headers(std::byte* out, const Endpoint& peer, uint16_t ether_type) noexcept;

}  // namespace itif::net
