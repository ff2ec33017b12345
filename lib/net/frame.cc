#include "net/frame.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <bit>

#include "net/checksum.h"
#include "net/header_bytes.h"

namespace itif::net {
namespace {

using Bytes = std::span<const std::byte>;

// A host must not skip an unknown option unless the two high bits of its type are 00 (RFC 8200,
// section 4.2). In practice we receive router alert (5) and padding.
DropReason check_ipv6_options(Bytes options) noexcept {
  while (!options.empty()) {
    const uint8_t type = load_u8(options.data());
    if (type == 0) {  // Pad1 has no length
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2) return DropReason::kIpMalformed;
    const size_t bytes = 2 + size_t{load_u8(&options[1])};
    if (bytes > options.size()) return DropReason::kIpMalformed;
    if ((type & 0xc0) != 0) return DropReason::kIpHeaderUnsupported;
    options = options.subspan(bytes);
  }
  return DropReason::kNone;
}

// Refuses loose and strict source routes, as every host does: replies would have to reverse them.
DropReason check_ipv4_options(Bytes options) noexcept {
  while (!options.empty()) {
    const uint8_t type = load_u8(options.data());
    if (type == 0) return DropReason::kNone;  // end of list
    if (type == 1) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2) return DropReason::kIpMalformed;
    const size_t bytes = load_u8(&options[1]);
    if (bytes < 2 || bytes > options.size()) return DropReason::kIpMalformed;
    if (type == 131 || type == 137) return DropReason::kIpHeaderUnsupported;
    options = options.subspan(bytes);
  }
  return DropReason::kNone;
}

// Returns true for ff02::1 and for ff02::1:ffXX:XXXX of one of our addresses.
bool is_our_multicast(const Ipv6Address& address, const LocalAddresses& local) noexcept {
  static constexpr Ipv6Address kAllNodes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  static constexpr std::array<uint8_t, 13> kSolicitedNode = {0xff, 0x02, 0, 0, 0, 0,   0,
                                                             0,    0,    0, 0, 1, 0xff};
  if (address == kAllNodes) return true;
  if (!std::equal(kSolicitedNode.begin(), kSolicitedNode.end(), address.begin())) return false;
  return std::any_of(local.ipv6.begin(), local.ipv6.end(), [&](const Ipv6Address& ours) {
    return std::equal(ours.begin() + 13, ours.end(), address.begin() + 13);
  });
}

template <size_t kSize>
std::array<uint8_t, kSize> load_array(const std::byte* at) noexcept {
  std::array<uint8_t, kSize> value;
  std::memcpy(value.data(), at, kSize);
  return value;
}

// Writes whole words: reading a word that was written in two parts would wait for the cache.
Ipv6Address padded(const Ipv4Address& address) noexcept {
  uint64_t words[2] = {};
  std::memcpy(words, address.data(), address.size());
  return std::bit_cast<Ipv6Address>(words);
}

class Parser {
 public:
  Parser(Bytes bytes, const FrameInfo& info, const LocalAddresses& local, Frame& out)
      : bytes_(bytes), info_(info), local_(local), out_(out) {}

  DropReason run() noexcept {
    uint16_t ether_type = 0;
    if (const DropReason reason = ethernet(ether_type); reason != DropReason::kNone) return reason;
    switch (ether_type) {
      case kEtherIpv4: return l2_multicast_ ? DropReason::kNotEthernetOurs : ipv4();
      case kEtherIpv6: return ipv6();
      case kEtherArp:
        if (rest() < kArpBytes) return DropReason::kRunt;
        out_.kind = Frame::kArp;
        out_.l4_offset = out_.payload_offset = out_.l3_offset;
        return DropReason::kNone;
      default: return DropReason::kNotEthernetOurs;
    }
  }

 private:
  size_t rest() const noexcept { return bytes_.size() - at_; }
  const std::byte* here() const noexcept { return bytes_.data() + at_; }

  DropReason ethernet(uint16_t& ether_type) noexcept {
    if (bytes_.size() < kEthernetBytes) return DropReason::kRunt;
    const auto destination = load_array<6>(here());
    out_.peer.peer_mac = load_array<6>(here() + 6);
    out_.peer.our_mac = local_.mac;
    l2_multicast_ = (destination[0] & 1) != 0;
    if (!l2_multicast_ && destination != local_.mac) return DropReason::kNotEthernetOurs;
    if ((out_.peer.peer_mac[0] & 1) != 0) return DropReason::kSourceInvalid;
    ether_type = load_be16(here() + 12);
    at_ = kEthernetBytes;

    out_.peer.num_vlans = 0;
    if (info_.vlan_stripped) add_vlan(kEtherVlan, info_.vlan_tci);
    while (ether_type == kEtherVlan || ether_type == kEtherServiceVlan ||
           ether_type == kEtherOldServiceVlan) {
      if (rest() < kVlanBytes) return DropReason::kRunt;
      if (out_.peer.num_vlans == 2) return DropReason::kVlanOther;
      add_vlan(ether_type, load_be16(here()));
      ether_type = load_be16(here() + 2);
      at_ += kVlanBytes;
    }
    out_.l3_offset = static_cast<uint16_t>(at_);
    return vlan_is_ours() ? DropReason::kNone : DropReason::kVlanOther;
  }

  void add_vlan(uint16_t tpid, uint16_t tci) noexcept {
    out_.peer.vlan_tpid[out_.peer.num_vlans] = tpid;
    out_.peer.vlan_tci[out_.peer.num_vlans++] = tci;
  }

  // The innermost tag that names a VLAN (0 is priority only) decides.
  bool vlan_is_ours() const noexcept {
    for (int i = out_.peer.num_vlans - 1; i >= 0; --i) {
      const unsigned id = out_.peer.vlan_tci[static_cast<size_t>(i)] & 0xfff;
      if (id != 0) return id == local_.vlan;
    }
    return true;
  }

  DropReason ipv4() noexcept {
    if (rest() < kIpv4Bytes) return DropReason::kRunt;
    const std::byte* ip = here();
    const size_t header_bytes = (load_u8(ip) & 0xf) * size_t{4};
    const size_t total_bytes = load_be16(ip + 2);
    if (load_u8(ip) >> 4 != 4 || header_bytes < kIpv4Bytes || total_bytes < header_bytes ||
        total_bytes > rest())
      return DropReason::kIpMalformed;
    if (info_.ip_checksum == ChecksumState::kBad) return DropReason::kIpChecksum;
    if (info_.ip_checksum != ChecksumState::kGood && ones_sum({ip, header_bytes}) != 0xffff)
      return DropReason::kIpChecksum;
    if ((load_be16(ip + 6) & 0x3fff) != 0) return DropReason::kIpFragment;

    const auto source = load_array<4>(ip + 12);
    const auto destination = load_array<4>(ip + 16);
    if (!local_.owns(destination)) return DropReason::kIpNotOurs;
    if (!can_be_host(source) || local_.owns(source)) return DropReason::kSourceInvalid;
    if (header_bytes > kIpv4Bytes) {
      const DropReason reason = check_ipv4_options({ip + kIpv4Bytes, header_bytes - kIpv4Bytes});
      if (reason != DropReason::kNone) return reason;
    }
    out_.peer.ip_version = 4;
    out_.peer.peer_address = padded(source);
    out_.peer.our_address = padded(destination);
    out_.hop_limit = load_u8(ip + 8);
    out_.to_multicast = false;
    at_ += header_bytes;
    return transport(load_u8(ip + 9), kProtocolIcmp, Frame::kIcmp, total_bytes - header_bytes);
  }

  // Returns true if another host on this link advertises an address (RFC 4861, section 7.2.5). A
  // forged packet from elsewhere has a smaller hop limit.
  bool is_advertisement(const std::byte* ip) const noexcept {
    constexpr uint8_t kNeighbourAdvertisement = 136;
    return load_u8(ip + 6) == kProtocolIcmpV6 && load_u8(ip + 7) == 255 &&
           load_u8(ip + kIpv6Bytes) == kNeighbourAdvertisement && out_.peer.peer_mac != local_.mac;
  }

  DropReason ipv6() noexcept {
    if (rest() < kIpv6Bytes) return DropReason::kRunt;
    const std::byte* ip = here();
    size_t left = load_be16(ip + 4);
    if (load_u8(ip) >> 4 != 6 || left == 0 || left > rest() - kIpv6Bytes)
      return DropReason::kIpMalformed;
    const auto source = load_array<16>(ip + 8);
    const auto destination = load_array<16>(ip + 24);
    out_.to_multicast = destination[0] == 0xff;
    if (out_.to_multicast ? !is_our_multicast(destination, local_) : !local_.owns(destination))
      return DropReason::kIpNotOurs;
    if (l2_multicast_ && !out_.to_multicast) return DropReason::kNotEthernetOurs;
    if (local_.owns(source))
      return is_advertisement(ip) ? DropReason::kAddressConflict : DropReason::kSourceInvalid;

    out_.peer.ip_version = 6;
    out_.peer.peer_address = source;
    out_.peer.our_address = destination;
    out_.hop_limit = load_u8(ip + 7);
    uint8_t next = load_u8(ip + 6);
    at_ += kIpv6Bytes;
    for (int skipped = 0; next == kProtocolHopByHop || next == kProtocolDestinationOptions;
         ++skipped) {
      if (skipped == kMaxExtensionHeaders) return DropReason::kIpHeaderUnsupported;
      // Hop-by-hop options may only come first (RFC 8200, section 4.1).
      if (next == kProtocolHopByHop && skipped > 0) return DropReason::kIpMalformed;
      if (left < 8) return DropReason::kIpMalformed;
      const size_t bytes = (size_t{load_u8(here() + 1)} + 1) * 8;
      if (bytes > left) return DropReason::kIpMalformed;
      const DropReason reason = check_ipv6_options({here() + 2, bytes - 2});
      if (reason != DropReason::kNone) return reason;
      next = load_u8(here());
      at_ += bytes;
      left -= bytes;
    }
    if (next == kProtocolFragment) return DropReason::kIpFragment;
    if (next == kProtocolRouting) return DropReason::kIpHeaderUnsupported;
    // Only ICMPv6 may have the unspecified source address (duplicate address detection).
    const bool unspecified = source == Ipv6Address{};
    if (!can_be_host(source) && !(unspecified && next == kProtocolIcmpV6))
      return DropReason::kSourceInvalid;
    if (out_.to_multicast && next != kProtocolIcmpV6) return DropReason::kIpNotOurs;
    return transport(next, kProtocolIcmpV6, Frame::kIcmpV6, left);
  }

  DropReason transport(uint8_t protocol, uint8_t icmp_protocol, Frame::Kind icmp_kind,
                       size_t l4_bytes) noexcept {
    out_.l4_offset = static_cast<uint16_t>(at_);
    if (protocol == kProtocolUdp) return udp(l4_bytes);
    if (protocol != icmp_protocol) return DropReason::kIpProtocolOther;
    out_.kind = icmp_kind;
    out_.peer.peer_port = out_.peer.our_port = 0;
    out_.payload_offset = out_.l4_offset;
    out_.payload_bytes = static_cast<uint16_t>(l4_bytes);
    return DropReason::kNone;
  }

  DropReason udp(size_t l4_bytes) noexcept {
    if (l4_bytes < kUdpBytes) return DropReason::kUdpMalformed;
    const std::byte* udp = here();
    const size_t udp_bytes = load_be16(udp + 4);
    if (udp_bytes < kUdpBytes || udp_bytes > l4_bytes) return DropReason::kUdpMalformed;
    if (load_be16(udp + 2) != local_.udp_port) return DropReason::kUdpOtherPort;
    out_.kind = Frame::kUdp;
    out_.peer.peer_port = load_be16(udp);
    out_.peer.our_port = local_.udp_port;
    if (out_.peer.peer_port == 0) return DropReason::kSourceInvalid;
    out_.payload_offset = static_cast<uint16_t>(at_ + kUdpBytes);
    out_.payload_bytes = static_cast<uint16_t>(udp_bytes - kUdpBytes);
    return udp_checksum_holds({udp, udp_bytes}) ? DropReason::kNone : DropReason::kUdpChecksum;
  }

  bool udp_checksum_holds(Bytes udp) const noexcept {
    if (info_.l4_checksum == ChecksumState::kGood) return true;
    if (info_.l4_checksum == ChecksumState::kBad) return false;
    const uint16_t field = load_be16(&udp[6]);
    if (field == 0) return out_.peer.ip_version == 4;  // "none": allowed over IPv4 only
    const uint16_t pseudo =
        pseudo_header_sum(out_.peer, kProtocolUdp, static_cast<uint32_t>(udp.size()));
    if (info_.l4_checksum == ChecksumState::kPartial && field == pseudo) return true;
    return ones_sum(udp, pseudo) == 0xffff;
  }

  Bytes bytes_;
  const FrameInfo info_;
  const LocalAddresses& local_;
  Frame& out_;
  size_t at_ = 0;
  bool l2_multicast_ = false;
};

// Inline: a caller would wait for the parts of the returned struct.
[[gnu::always_inline]] inline FrameInfo read_frame_info(const rte_mbuf& mbuf,
                                                        bool partial_checksums) noexcept {
  FrameInfo info;
  switch (mbuf.ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) {
    case RTE_MBUF_F_RX_IP_CKSUM_GOOD:
    case RTE_MBUF_F_RX_IP_CKSUM_NONE:  // "not correct in the data, but verified"
      info.ip_checksum = ChecksumState::kGood;
      break;
    case RTE_MBUF_F_RX_IP_CKSUM_BAD: info.ip_checksum = ChecksumState::kBad; break;
    default: break;
  }
  switch (mbuf.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
    case RTE_MBUF_F_RX_L4_CKSUM_GOOD:
    case RTE_MBUF_F_RX_L4_CKSUM_NONE: info.l4_checksum = ChecksumState::kGood; break;
    case RTE_MBUF_F_RX_L4_CKSUM_BAD: info.l4_checksum = ChecksumState::kBad; break;
    default:
      info.l4_checksum = partial_checksums ? ChecksumState::kPartial : ChecksumState::kUnknown;
  }
  info.vlan_stripped = (mbuf.ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0;
  info.vlan_tci = mbuf.vlan_tci;
  return info;
}

}  // namespace

FrameInfo frame_info(const rte_mbuf& mbuf, bool partial_checksums) noexcept {
  return read_frame_info(mbuf, partial_checksums);
}

DropReason parse_frame(Bytes bytes, const FrameInfo& info, const LocalAddresses& local,
                       Frame& out) noexcept {
  return Parser(bytes, info, local, out).run();
}

DropReason parse_frame(rte_mbuf& mbuf, bool partial_checksums, const LocalAddresses& local,
                       Frame& out) noexcept {
  if (mbuf.nb_segs > 1 && rte_pktmbuf_linearize(&mbuf) != 0) return DropReason::kMultiSegment;
  const Bytes bytes(rte_pktmbuf_mtod(&mbuf, const std::byte*), mbuf.data_len);
  return Parser(bytes, read_frame_info(mbuf, partial_checksums), local, out).run();
}

std::span<const std::byte> udp_payload(const rte_mbuf& mbuf, const Frame& frame) noexcept {
  return {rte_pktmbuf_mtod_offset(&mbuf, const std::byte*, frame.payload_offset),
          frame.payload_bytes};
}

}  // namespace itif::net
