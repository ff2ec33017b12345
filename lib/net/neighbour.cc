#include "net/neighbour.h"

#include <rte_mbuf.h>

#include <algorithm>

#include "net/announce.h"
#include "net/checksum.h"
#include "net/frame_writer.h"
#include "net/header_bytes.h"

namespace itif::net {
namespace {

constexpr uint8_t kEchoRequest = 8, kEchoReply = 0;
constexpr uint8_t kEchoRequestV6 = 128, kEchoReplyV6 = 129;
constexpr uint8_t kGroupQuery = 130;
constexpr uint8_t kUnreachable = 3, kUnreachablePort = 3;      // type, code
constexpr uint8_t kUnreachableV6 = 1, kUnreachablePortV6 = 4;  // likewise
constexpr size_t kMostQuotedBytes = 128;
constexpr uint8_t kNeighbourSolicitation = 135, kNeighbourAdvertisement = 136;
constexpr size_t kEchoBytes = 8;
constexpr size_t kGroupQueryBytes = 28;     // without sources
constexpr size_t kSolicitationBytes = 24;   // without options
constexpr size_t kAdvertisementBytes = 32;  // with the target link-layer address option
constexpr uint8_t kSourceLinkLayerOption = 1, kTargetLinkLayerOption = 2;
constexpr uint8_t kSolicited = 0x40, kOverride = 0x20;
constexpr uint8_t kNeighbourHopLimit = 255, kEchoHopLimit = 64;

// Makes the mbuf `headers` + `body` bytes long, with the body at the current byte `body_offset`.
// Our headers are longer than the received ones only if the NIC stripped a VLAN tag; then they
// extend into the headroom. Returns nullptr if the buffer is too small.
std::byte* reframe(rte_mbuf& mbuf, size_t body_offset, size_t headers, size_t body) noexcept {
  const size_t body_at = mbuf.data_off + body_offset;
  if (headers > body_at || body_at + body > mbuf.buf_len) return nullptr;
  mbuf.data_off = static_cast<uint16_t>(body_at - headers);
  mbuf.data_len = static_cast<uint16_t>(headers + body);
  mbuf.pkt_len = mbuf.data_len;
  // Receive flags must not act as transmit flags.
  mbuf.ol_flags &= RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
  mbuf.vlan_tci = 0;
  return rte_pktmbuf_mtod(&mbuf, std::byte*);
}

DropReason answer_arp(rte_mbuf& mbuf, const Frame& frame, const LocalAddresses& local) noexcept {
  const std::byte* arp = rte_pktmbuf_mtod_offset(&mbuf, const std::byte*, frame.l3_offset);
  if (load_be16(arp) != 1 || load_be16(arp + 2) != kEtherIpv4 || load_u8(arp + 4) != 6 ||
      load_u8(arp + 5) != 4)
    return DropReason::kArpMalformed;
  std::array<std::byte, 10> sender;  // MAC and IP
  Ipv4Address target;
  std::memcpy(sender.data(), arp + 8, sender.size());
  std::memcpy(target.data(), arp + 24, target.size());
  // Our own IP address with our MAC address is our announcement, on a link that loops back; with
  // another's, it is a conflict, in requests and replies (RFC 5227, section 2.4). Our MAC address
  // alone means nothing, because the kernel's end of a tap has it, too.
  Ipv4Address source;
  std::memcpy(source.data(), sender.data() + 6, source.size());
  if (local.owns(source))
    return std::memcmp(sender.data(), local.mac.data(), local.mac.size()) == 0
               ? DropReason::kArpNotOurs
               : DropReason::kAddressConflict;
  // We need no replies.
  if (load_be16(arp + 6) != 1 || !local.owns(target)) return DropReason::kArpNotOurs;

  const size_t l2_bytes = kEthernetBytes + frame.peer.num_vlans * kVlanBytes;
  std::byte* out = reframe(mbuf, frame.l3_offset, l2_bytes, kArpBytes);
  if (out == nullptr) return DropReason::kNoMbuf;
  out += write_l2_headers(out, frame.peer, kEtherArp);
  store_be16(out + 6, 2);
  std::memcpy(out + 8, local.mac.data(), 6);
  std::memcpy(out + 14, target.data(), 4);
  std::memcpy(out + 18, sender.data(), sender.size());
  return DropReason::kNone;
}

DropReason answer_echo(rte_mbuf& mbuf, const Frame& frame) noexcept {
  std::byte* icmp = rte_pktmbuf_mtod_offset(&mbuf, std::byte*, frame.l4_offset);
  if (ones_sum({icmp, frame.payload_bytes}) != 0xffff) return DropReason::kIcmpChecksum;
  if (load_be16(icmp) != kEchoRequest << 8) return DropReason::kIcmpUnsupported;

  std::byte* out = reframe(mbuf, frame.l4_offset, l3_header_bytes(frame.peer), frame.payload_bytes);
  if (out == nullptr) return DropReason::kNoMbuf;
  icmp = out + write_l3_headers(out, frame.peer, kProtocolIcmp, frame.payload_bytes, kEchoHopLimit);
  icmp[0] = std::byte{kEchoReply};
  store_be16(icmp + 2, 0);
  store_be16(icmp + 2, static_cast<uint16_t>(~ones_sum({icmp, frame.payload_bytes})));
  return DropReason::kNone;
}

DropReason answer_echo_v6(rte_mbuf& mbuf, const Frame& frame) noexcept {
  if (frame.to_multicast) return DropReason::kIcmpUnsupported;  // ff02::1 could amplify an attack
  if (Ipv6Address(frame.peer.peer_address) == Ipv6Address{}) return DropReason::kSourceInvalid;
  std::byte* out = reframe(mbuf, frame.l4_offset, l3_header_bytes(frame.peer), frame.payload_bytes);
  if (out == nullptr) return DropReason::kNoMbuf;
  std::byte* icmp =
      out + write_l3_headers(out, frame.peer, kProtocolIcmpV6, frame.payload_bytes, kEchoHopLimit);
  icmp[0] = std::byte{kEchoReplyV6};
  store_be16(icmp + 2, 0);
  store_be16(icmp + 2, l4_checksum(frame.peer, kProtocolIcmpV6, {icmp, frame.payload_bytes}));
  return DropReason::kNone;
}

// Validates a solicitation. Source: RFC 4861, section 7.1.1.
DropReason check_solicitation(std::span<const std::byte> icmp, const Frame& frame,
                              bool unspecified) noexcept {
  static constexpr uint8_t kSolicitedNode[] = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  if (frame.hop_limit != 255 || icmp.size() < kSolicitationBytes || load_u8(&icmp[1]) != 0 ||
      load_u8(&icmp[8]) == 0xff)
    return DropReason::kIcmpMalformed;
  if (unspecified && !std::equal(std::begin(kSolicitedNode), std::end(kSolicitedNode),
                                 frame.peer.our_address.begin()))
    return DropReason::kIcmpMalformed;
  for (auto options = icmp.subspan(kSolicitationBytes); !options.empty();) {
    if (options.size() < 8) return DropReason::kIcmpMalformed;
    const size_t bytes = size_t{load_u8(&options[1])} * 8;
    if (bytes == 0 || bytes > options.size()) return DropReason::kIcmpMalformed;
    if (unspecified && load_u8(&options[0]) == kSourceLinkLayerOption)
      return DropReason::kIcmpMalformed;
    options = options.subspan(bytes);
  }
  return DropReason::kNone;
}

DropReason answer_solicitation(rte_mbuf& mbuf, const Frame& frame, const LocalAddresses& local,
                               std::span<const std::byte> icmp) noexcept {
  const bool unspecified = Ipv6Address(frame.peer.peer_address) == Ipv6Address{};
  const DropReason reason = check_solicitation(icmp, frame, unspecified);
  if (reason != DropReason::kNone) return reason;
  Ipv6Address target;
  std::memcpy(target.data(), &icmp[8], target.size());
  if (!local.owns(target)) return DropReason::kIcmpUnsupported;

  Endpoint peer = frame.peer;
  peer.our_address = target;
  if (unspecified) {  // a DAD probe: tell all nodes that the address is taken
    peer.peer_address = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    peer.peer_mac = {0x33, 0x33, 0, 0, 0, 1};
  }
  std::byte* out = reframe(mbuf, frame.l4_offset, l3_header_bytes(peer), kAdvertisementBytes);
  if (out == nullptr) return DropReason::kNoMbuf;
  out += write_l3_headers(out, peer, kProtocolIcmpV6, kAdvertisementBytes, kNeighbourHopLimit);
  std::memset(out, 0, 8);
  out[0] = std::byte{kNeighbourAdvertisement};
  out[4] = static_cast<std::byte>(unspecified ? kOverride : kOverride | kSolicited);
  std::memcpy(out + 8, target.data(), target.size());
  out[24] = std::byte{kTargetLinkLayerOption};
  out[25] = std::byte{1};
  std::memcpy(out + 26, local.mac.data(), 6);
  store_be16(out + 2, l4_checksum(peer, kProtocolIcmpV6, {out, kAdvertisementBytes}));
  return DropReason::kNone;
}

// Answers MLDv2's general query and queries for our groups (RFC 3810, section 5.1). A report may be
// sent at any time up to the query's maximum delay; sending it immediately is simplest. The shorter
// query of version 1 is not answered, because its router would not understand the report.
DropReason answer_group_query(rte_mbuf& mbuf, const Frame& frame, const LocalAddresses& local,
                              std::span<const std::byte> icmp) noexcept {
  if (icmp.size() < kGroupQueryBytes) return DropReason::kIcmpUnsupported;
  const auto& from = frame.peer.peer_address;
  const bool on_link = from[0] == 0xfe && (from[1] & 0xc0) == 0x80;
  if (frame.hop_limit != 1 || !on_link || load_u8(&icmp[1]) != 0) return DropReason::kIcmpMalformed;
  const Endpoint ends = group_report_ends(frame.peer, local);
  std::byte* out = reframe(mbuf, frame.l4_offset, l3_header_bytes(ends), group_report_bytes(local));
  if (out == nullptr) return DropReason::kNoMbuf;
  write_group_report(out, ends, local, GroupRecord::kIsExclude);
  return DropReason::kNone;
}

// Returns true if an advertisement says that another host has one of our addresses. Hop limit 255
// proves that it comes from this link.
bool claims_our_address(std::span<const std::byte> icmp, const Frame& frame,
                        const LocalAddresses& local) noexcept {
  if (icmp.size() < kSolicitationBytes || frame.hop_limit != 255) return false;
  Ipv6Address target;
  std::memcpy(target.data(), &icmp[8], target.size());
  return local.owns(target) && frame.peer.peer_mac != local.mac;
}

DropReason answer_icmp_v6(rte_mbuf& mbuf, const Frame& frame,
                          const LocalAddresses& local) noexcept {
  const std::span<const std::byte> icmp(
      rte_pktmbuf_mtod_offset(&mbuf, const std::byte*, frame.l4_offset), frame.payload_bytes);
  const uint32_t pseudo = pseudo_header_sum(frame.peer, kProtocolIcmpV6, frame.payload_bytes);
  if (ones_sum(icmp, pseudo) != 0xffff) return DropReason::kIcmpChecksum;
  if (load_be16(icmp.data()) == kEchoRequestV6 << 8) return answer_echo_v6(mbuf, frame);
  if (load_u8(icmp.data()) == kNeighbourSolicitation)
    return answer_solicitation(mbuf, frame, local, icmp);
  if (load_u8(icmp.data()) == kGroupQuery) return answer_group_query(mbuf, frame, local, icmp);
  if (load_u8(icmp.data()) == kNeighbourAdvertisement && claims_our_address(icmp, frame, local))
    return DropReason::kAddressConflict;
  return DropReason::kIcmpUnsupported;
}

}  // namespace

bool asks_for_echo(const rte_mbuf& mbuf, const Frame& frame) noexcept {
  if (frame.payload_bytes < kEchoBytes) return false;
  const auto type = load_u8(rte_pktmbuf_mtod_offset(&mbuf, const std::byte*, frame.l4_offset));
  return (frame.kind == Frame::kIcmp && type == kEchoRequest) ||
         (frame.kind == Frame::kIcmpV6 && type == kEchoRequestV6);
}

bool answer_other_port(rte_mbuf& mbuf, const Frame& frame) noexcept {
  const bool is_v4 = frame.peer.ip_version == 4;
  const std::byte* ip = rte_pktmbuf_mtod_offset(&mbuf, const std::byte*, frame.l3_offset);
  const std::byte* udp = rte_pktmbuf_mtod_offset(&mbuf, const std::byte*, frame.l4_offset);
  if (load_be16(udp) == 0) return false;  // no port waits for an answer
  std::array<std::byte, kMostQuotedBytes> quoted;
  const size_t quoted_bytes = size_t{frame.l4_offset} - frame.l3_offset + kUdpBytes;
  if (quoted_bytes > quoted.size()) return false;
  std::memcpy(quoted.data(), ip, quoted_bytes);
  const size_t bytes = kEchoBytes + quoted_bytes;
  if (bytes > load_be16(udp + 4)) return false;  // longer than the datagram
  std::byte* out = reframe(mbuf, frame.l4_offset, l3_header_bytes(frame.peer), bytes);
  if (out == nullptr) return false;
  std::byte* icmp = out + write_l3_headers(out, frame.peer, is_v4 ? kProtocolIcmp : kProtocolIcmpV6,
                                           static_cast<uint16_t>(bytes), kEchoHopLimit);
  std::memset(icmp, 0, kEchoBytes);
  icmp[0] = std::byte{is_v4 ? kUnreachable : kUnreachableV6};
  icmp[1] = std::byte{is_v4 ? kUnreachablePort : kUnreachablePortV6};
  std::memcpy(icmp + kEchoBytes, quoted.data(), quoted_bytes);
  store_be16(icmp + 2, is_v4 ? static_cast<uint16_t>(~ones_sum({icmp, bytes}))
                             : l4_checksum(frame.peer, kProtocolIcmpV6, {icmp, bytes}));
  return true;
}

DropReason answer_neighbour(rte_mbuf& mbuf, const Frame& frame,
                            const LocalAddresses& local) noexcept {
  if (frame.kind == Frame::kArp) return answer_arp(mbuf, frame, local);
  if (frame.payload_bytes < kEchoBytes) return DropReason::kIcmpMalformed;
  return frame.kind == Frame::kIcmp ? answer_echo(mbuf, frame) : answer_icmp_v6(mbuf, frame, local);
}

}  // namespace itif::net
