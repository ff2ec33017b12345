// Source: RFC 826 (ARP); RFC 4861 sections 4.3, 4.4 and 7.2 (neighbour discovery).
#include "eal_resolve.h"

#include <fmt/format.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>

#include "net/checksum.h"
#include "net/frame.h"
#include "net/frame_writer.h"
#include "net/header_bytes.h"
#include "net/neighbour.h"

namespace itif::loadgen {
namespace {

constexpr uint64_t kAskEvery_ns = 333'000'000;
constexpr int kQuestions = 9;
constexpr size_t kSolicitationBytes = 32;  // with the source link-layer address option
constexpr uint8_t kSolicitation = 135, kAdvertisement = 136;
constexpr uint8_t kTargetLinkLayerOption = 2;

size_t write_arp_request(std::byte* out, const net::Endpoint& peer) {
  net::Endpoint broadcast = peer;
  broadcast.peer_mac.fill(0xff);
  const size_t at = net::write_l2_headers(out, broadcast, net::kEtherArp);
  std::byte* arp = out + at;
  std::memset(arp, 0, net::kArpBytes);
  net::store_be16(arp, 1);
  net::store_be16(arp + 2, net::kEtherIpv4);
  arp[4] = std::byte{6};
  arp[5] = std::byte{4};
  net::store_be16(arp + 6, 1);
  std::memcpy(arp + 8, peer.our_mac.data(), 6);
  std::memcpy(arp + 14, peer.our_address.data(), 4);
  std::memcpy(arp + 24, peer.peer_address.data(), 4);
  return at + net::kArpBytes;
}

size_t write_solicitation(std::byte* out, const net::Endpoint& peer) {
  net::Endpoint to = peer;  // ff02::1:ffXX:XXXX, 33:33:ff:XX:XX:XX
  to.peer_address = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0};
  std::copy_n(peer.peer_address.begin() + 13, 3, to.peer_address.begin() + 13);
  to.peer_mac = {
      0x33, 0x33, 0xff, peer.peer_address[13], peer.peer_address[14], peer.peer_address[15]};
  const size_t at = net::write_l3_headers(out, to, net::kProtocolIcmpV6, kSolicitationBytes, 255);
  std::byte* icmp = out + at;
  std::memset(icmp, 0, kSolicitationBytes);
  icmp[0] = std::byte{kSolicitation};
  std::memcpy(icmp + 8, peer.peer_address.data(), 16);
  icmp[24] = std::byte{1};  // source link-layer address, 8 bytes
  icmp[25] = std::byte{1};
  std::memcpy(icmp + 26, peer.our_mac.data(), 6);
  net::store_be16(icmp + 2, net::l4_checksum(to, net::kProtocolIcmpV6, {icmp, kSolicitationBytes}));
  return at + kSolicitationBytes;
}

// Sets peer.peer_mac and returns true if the frame is the server's answer.
bool read_answer(const rte_mbuf& mbuf, const net::Frame& frame, net::Endpoint& peer) {
  if (frame.kind == net::Frame::kArp && peer.ip_version == 4) {
    const auto* arp = rte_pktmbuf_mtod_offset(&mbuf, const std::byte*, frame.l3_offset);
    if (net::load_be16(arp + 6) != 2 || std::memcmp(arp + 14, peer.peer_address.data(), 4) != 0)
      return false;
    std::memcpy(peer.peer_mac.data(), arp + 8, 6);
    return true;
  }
  if (frame.kind != net::Frame::kIcmpV6 || peer.ip_version != 6 || frame.hop_limit != 255)
    return false;
  const auto* icmp = rte_pktmbuf_mtod_offset(&mbuf, const std::byte*, frame.l4_offset);
  if (frame.payload_bytes < kSolicitationBytes || net::load_u8(icmp) != kAdvertisement ||
      std::memcmp(icmp + 8, peer.peer_address.data(), 16) != 0 ||
      net::load_u8(icmp + 24) != kTargetLinkLayerOption)
    return false;
  std::memcpy(peer.peer_mac.data(), icmp + 26, 6);
  return true;
}

bool poll_for_answer(const net::Port& port, const net::LocalAddresses& local, net::Endpoint& peer) {
  std::array<rte_mbuf*, 32> burst;
  const uint16_t count = port.rx_burst(0, burst);
  bool found = false;
  for (rte_mbuf* mbuf : std::span(burst).first(count)) {
    net::Frame frame;
    if (net::parse_frame(*mbuf, port.info().partial_checksums, local, frame) ==
        net::DropReason::kNone) {
      if (read_answer(*mbuf, frame, peer)) {
        found = true;
      } else if (frame.kind != net::Frame::kUdp &&
                 net::answer_neighbour(*mbuf, frame, local) == net::DropReason::kNone &&
                 port.tx_burst(0, std::span(&mbuf, 1)) == 1) {
        continue;
      }
    }
    rte_pktmbuf_free(mbuf);
  }
  return found;
}

}  // namespace

Status resolve_mac(const Clock& clock, const net::Port& port, rte_mempool* pool,
                   const net::LocalAddresses& local, net::Endpoint& peer) {
  for (int question = 0; question < kQuestions; ++question) {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
    if (mbuf == nullptr) return fail(Code::kResourceExhausted, "no packet buffer is left");
    auto* out = rte_pktmbuf_mtod(mbuf, std::byte*);
    const size_t bytes =
        peer.ip_version == 4 ? write_arp_request(out, peer) : write_solicitation(out, peer);
    mbuf->data_len = static_cast<uint16_t>(bytes);
    mbuf->pkt_len = mbuf->data_len;
    // A link that is not up yet rejects the frame; the next attempt may succeed.
    if (port.tx_burst(0, std::span(&mbuf, 1)) == 0) rte_pktmbuf_free(mbuf);
    const uint64_t until_ns = clock.now_ns() + kAskEvery_ns;
    while (clock.now_ns() < until_ns) {
      if (poll_for_answer(port, local, peer)) return {};
      const timespec nap{.tv_sec = 0, .tv_nsec = 200'000};
      nanosleep(&nap, nullptr);
    }
  }
  return fail(
      Code::kUnavailable,
      fmt::format(
          "no answer to address resolution of {}: check that the appliance runs, that the link "
          "({}) is up and that both ends are in one subnet, or give --server-mac",
          peer.ip_version == 4 ? net::format_ipv4({peer.peer_address[0], peer.peer_address[1],
                                                   peer.peer_address[2], peer.peer_address[3]})
                               : net::format_ipv6(peer.peer_address),
          port.info().device));
}

}  // namespace itif::loadgen
