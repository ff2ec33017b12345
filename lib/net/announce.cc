#include "net/announce.h"

#include <rte_mbuf.h>

#include <algorithm>

#include "net/checksum.h"
#include "net/frame_writer.h"
#include "net/header_bytes.h"

namespace itif::net {
namespace {

constexpr uint8_t kNeighbourAdvertisement = 136, kGroupReport = 143;
constexpr size_t kAdvertisementBytes = 32;  // with the target link-layer address option
constexpr size_t kRouterAlertBytes = 8, kReportBytes = 8, kRecordBytes = 20;
// Groups that fit a report within IPv6's minimum MTU.
constexpr size_t kMaxGroups = (1280 - kIpv6Bytes - kRouterAlertBytes - kReportBytes) / kRecordBytes;

constexpr Ipv6Address kAllNodes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr Ipv6Address kAllReportListeners = {0xff, 0x02, 0, 0, 0, 0, 0, 0,
                                             0,    0,    0, 0, 0, 0, 0, 0x16};

// Calls visit(address) for one address of each solicited-node group, at most kMaxGroups.
template <class Visit>
void for_each_group(const LocalAddresses& local, Visit visit) noexcept {
  size_t groups = 0;
  for (auto address = local.ipv6.begin(); address != local.ipv6.end() && groups < kMaxGroups;
       ++address) {
    const bool known = std::any_of(local.ipv6.begin(), address, [&](const Ipv6Address& earlier) {
      return std::equal(earlier.begin() + 13, earlier.end(), address->begin() + 13);
    });
    if (known) continue;
    ++groups;
    visit(*address);
  }
}

void send_to(Endpoint& ends, const Ipv6Address& group) noexcept {
  ends.ip_version = 6;
  ends.peer_address = group;
  ends.peer_mac = {0x33, 0x33, group[12], group[13], group[14], group[15]};
}

// An ARP request for our own address: more hosts heed it than an unsolicited reply.
std::vector<std::byte> gratuitous_arp(Endpoint ends, const LocalAddresses& local,
                                      const Ipv4Address& address) {
  ends.peer_mac.fill(0xff);
  std::vector<std::byte> frame(kEthernetBytes + ends.num_vlans * kVlanBytes + kArpBytes);
  std::byte* arp = frame.data() + write_l2_headers(frame.data(), ends, kEtherArp);
  store_be16(arp, 1);
  store_be16(arp + 2, kEtherIpv4);
  arp[4] = std::byte{6};
  arp[5] = std::byte{4};
  store_be16(arp + 6, 1);
  std::memcpy(arp + 8, local.mac.data(), 6);
  std::memcpy(arp + 14, address.data(), 4);
  std::memcpy(arp + 24, address.data(), 4);
  return frame;
}

std::vector<std::byte> unsolicited_advertisement(Endpoint ends, const LocalAddresses& local,
                                                 const Ipv6Address& address) {
  send_to(ends, kAllNodes);
  ends.our_address = address;
  std::vector<std::byte> frame(l3_header_bytes(ends) + kAdvertisementBytes);
  std::byte* icmp = frame.data() +
                    write_l3_headers(frame.data(), ends, kProtocolIcmpV6, kAdvertisementBytes, 255);
  icmp[0] = std::byte{kNeighbourAdvertisement};
  icmp[4] = std::byte{0x20};  // override
  std::memcpy(icmp + 8, address.data(), address.size());
  icmp[24] = std::byte{2};  // target link-layer address, 8 bytes
  icmp[25] = std::byte{1};
  std::memcpy(icmp + 26, local.mac.data(), 6);
  store_be16(icmp + 2, l4_checksum(ends, kProtocolIcmpV6, {icmp, kAdvertisementBytes}));
  return frame;
}

std::vector<std::byte> group_report(const Endpoint& vlan, const LocalAddresses& local) {
  const Endpoint ends = group_report_ends(vlan, local);
  std::vector<std::byte> frame(l3_header_bytes(ends) + group_report_bytes(local));
  write_group_report(frame.data(), ends, local, GroupRecord::kChangeToExclude);
  return frame;
}

}  // namespace

size_t group_report_bytes(const LocalAddresses& local) noexcept {
  size_t bytes = kRouterAlertBytes + kReportBytes;
  for_each_group(local, [&](const Ipv6Address&) { bytes += kRecordBytes; });
  return bytes;
}

Endpoint group_report_ends(const Endpoint& peer, const LocalAddresses& local) noexcept {
  Endpoint ends = peer;
  ends.our_mac = local.mac;
  ends.our_address = link_local(local.mac);
  send_to(ends, kAllReportListeners);
  return ends;
}

void write_group_report(std::byte* out, const Endpoint& ends, const LocalAddresses& local,
                        GroupRecord record) noexcept {
  const size_t bytes = group_report_bytes(local);
  std::byte* alert = out + write_l3_headers(out, ends, kProtocolHopByHop, bytes, 1);
  std::memset(alert, 0, bytes);
  alert[0] = std::byte{kProtocolIcmpV6};
  alert[2] = std::byte{5};  // router alert, 2 bytes: 0 is MLD (RFC 2711)
  alert[3] = std::byte{2};
  alert[6] = std::byte{1};  // PadN
  std::byte* icmp = alert + kRouterAlertBytes;
  icmp[0] = std::byte{kGroupReport};
  std::byte* at = icmp + kReportBytes;
  uint16_t records = 0;
  for_each_group(local, [&](const Ipv6Address& address) {
    at[0] = static_cast<std::byte>(record);
    Ipv6Address group = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
    std::copy(address.begin() + 13, address.end(), group.begin() + 13);
    std::memcpy(at + 4, group.data(), group.size());
    at += kRecordBytes;
    ++records;
  });
  store_be16(icmp + 6, records);
  store_be16(icmp + 2, l4_checksum(ends, kProtocolIcmpV6, {icmp, bytes - kRouterAlertBytes}));
}

std::vector<std::vector<std::byte>> announcements(const LocalAddresses& local) {
  std::vector<std::vector<std::byte>> frames;
  for (const uint8_t num_vlans : {0, 1}) {
    if (num_vlans > 0 && local.vlan == 0) break;
    Endpoint ends;
    ends.our_mac = local.mac;
    ends.num_vlans = num_vlans;
    ends.vlan_tpid[0] = kEtherVlan;
    ends.vlan_tci[0] = local.vlan;
    if (!local.ipv6.empty()) frames.push_back(group_report(ends, local));
    for (const Ipv4Address& address : local.ipv4)
      frames.push_back(gratuitous_arp(ends, local, address));
    for (const Ipv6Address& address : local.ipv6)
      frames.push_back(unsolicited_advertisement(ends, local, address));
  }
  return frames;
}

size_t announce(TxBuffer& tx, rte_mempool* pool,
                std::span<const std::vector<std::byte>> frames) noexcept {
  size_t sent = 0;
  for (const std::vector<std::byte>& frame : frames) {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
    if (mbuf == nullptr) break;
    void* data = rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size()));
    if (data == nullptr) {
      rte_pktmbuf_free(mbuf);
      continue;
    }
    std::memcpy(data, frame.data(), frame.size());
    sent += tx.push(mbuf);
  }
  return sent;
}

}  // namespace itif::net
