#include "net/frame_writer.h"

#include <rte_mbuf.h>

#include "base/check.h"
#include "net/checksum.h"
#include "net/header_bytes.h"

namespace itif::net {
namespace {

constexpr uint8_t kHopLimit = 64;

size_t l2_header_bytes(const Endpoint& peer) noexcept {
  return kEthernetBytes + peer.num_vlans * kVlanBytes;
}

void write_ipv4(std::byte* ip, const Endpoint& peer, uint8_t protocol, size_t l4_bytes,
                uint8_t hop_limit) noexcept {
  constexpr uint16_t kVersionAndLength = 0x4500;
  constexpr uint16_t kDontFragment = 0x4000;  // identification may then be 0 (RFC 6864)
  const auto total_bytes = static_cast<uint16_t>(kIpv4Bytes + l4_bytes);
  const auto hops_and_protocol = static_cast<uint16_t>(hop_limit << 8 | protocol);
  store_be16(ip, kVersionAndLength);
  store_be16(ip + 2, total_bytes);
  store_be16(ip + 4, 0);
  store_be16(ip + 6, kDontFragment);
  store_be16(ip + 8, hops_and_protocol);
  std::memcpy(ip + 12, peer.our_address.data(), 4);
  std::memcpy(ip + 16, peer.peer_address.data(), 4);
  // From the values: to read them back would wait for the stores.
  const uint32_t sum = kVersionAndLength + kDontFragment + total_bytes + hops_and_protocol;
  store_be16(ip + 10, static_cast<uint16_t>(~address_sum(peer, sum)));
}

void write_ipv6(std::byte* ip, const Endpoint& peer, uint8_t protocol, size_t l4_bytes,
                uint8_t hop_limit) noexcept {
  std::memset(ip, 0, 8);
  ip[0] = std::byte{0x60};
  store_be16(ip + 4, static_cast<uint16_t>(l4_bytes));
  ip[6] = std::byte{protocol};
  ip[7] = std::byte{hop_limit};
  std::memcpy(ip + 8, peer.our_address.data(), 16);
  std::memcpy(ip + 24, peer.peer_address.data(), 16);
}

}  // namespace

size_t l3_header_bytes(const Endpoint& peer) noexcept {
  return l2_header_bytes(peer) + (peer.ip_version == 4 ? kIpv4Bytes : kIpv6Bytes);
}

size_t write_l2_headers(std::byte* out, const Endpoint& peer, uint16_t ether_type) noexcept {
  std::memcpy(out, peer.peer_mac.data(), 6);
  std::memcpy(out + 6, peer.our_mac.data(), 6);
  size_t at = 12;
  for (size_t i = 0; i < peer.num_vlans; ++i, at += kVlanBytes) {
    store_be16(out + at, peer.vlan_tpid[i]);
    store_be16(out + at + 2, peer.vlan_tci[i]);
  }
  store_be16(out + at, ether_type);
  return at + 2;
}

size_t write_l3_headers(std::byte* out, const Endpoint& peer, uint8_t protocol, size_t l4_bytes,
                        uint8_t hop_limit) noexcept {
  const bool ipv4 = peer.ip_version == 4;
  const size_t l2 = write_l2_headers(out, peer, ipv4 ? kEtherIpv4 : kEtherIpv6);
  (ipv4 ? write_ipv4 : write_ipv6)(out + l2, peer, protocol, l4_bytes, hop_limit);
  return l2 + (ipv4 ? kIpv4Bytes : kIpv6Bytes);
}

std::span<std::byte> udp_payload_room(rte_mbuf& mbuf, const Endpoint& peer) noexcept {
  const size_t headers = udp_header_bytes(peer);
  const size_t room = mbuf.buf_len - mbuf.data_off;
  if (room < headers) return {};
  return {rte_pktmbuf_mtod(&mbuf, std::byte*) + headers, room - headers};
}

void write_udp_headers(rte_mbuf& mbuf, const Endpoint& peer, size_t payload_bytes,
                       const TxOffloads& offloads) noexcept {
  const size_t udp_bytes = kUdpBytes + payload_bytes;
  DCHECK(udp_bytes + kIpv4Bytes <= UINT16_MAX);
  std::byte* frame = rte_pktmbuf_mtod(&mbuf, std::byte*);
  const size_t l3 = write_l3_headers(frame, peer, kProtocolUdp, udp_bytes, kHopLimit);
  std::byte* udp = frame + l3;
  store_be16(udp, peer.our_port);
  store_be16(udp + 2, peer.peer_port);
  store_be16(udp + 4, static_cast<uint16_t>(udp_bytes));
  store_be16(udp + 6, 0);

  mbuf.data_len = static_cast<uint16_t>(l3 + udp_bytes);
  mbuf.pkt_len = mbuf.data_len;
  const size_t l2 = l2_header_bytes(peer);
  mbuf.tx_offload = rte_mbuf_tx_offload(l2, l3 - l2, 0, 0, 0, 0, 0);
  const bool ipv4 = peer.ip_version == 4;
  uint64_t flags = 0;
  if (offloads.udp_checksum) {  // the device expects the pseudo-header sum in the field
    store_be16(udp + 6, pseudo_header_sum(peer, kProtocolUdp, static_cast<uint32_t>(udp_bytes)));
    flags |= RTE_MBUF_F_TX_UDP_CKSUM | (ipv4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
  } else {
    const uint32_t header_sum =
        pseudo_header_sum(peer, kProtocolUdp, static_cast<uint32_t>(udp_bytes)) + peer.our_port +
        peer.peer_port + static_cast<uint32_t>(udp_bytes);
    const auto checksum =
        static_cast<uint16_t>(~ones_sum({udp + kUdpBytes, payload_bytes}, header_sum));
    store_be16(udp + 6, checksum == 0 ? 0xffff : checksum);  // 0 means "none"
  }
  if (offloads.ipv4_checksum && ipv4) {
    store_be16(frame + l2 + 10, 0);
    flags |= RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_IPV4;
  }
  mbuf.ol_flags |= flags;
}

}  // namespace itif::net
