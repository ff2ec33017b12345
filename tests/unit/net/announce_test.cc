// Unsolicited announcements, and reports that answer an MLD query. Expected bytes are written by
// hand, their checksums computed by packet.h.
#include "net/announce.h"

#include <rte_dev.h>
#include <rte_mbuf.h>

#include "net/frame.h"
#include "net/mempool.h"
#include "net/neighbour.h"
#include "packet.h"

namespace itif::net::test {
namespace {

using Bytes = std::vector<std::byte>;

const char* const kLinkLocal = "fe80::ff:fe00:1";

Bytes icmp_v6(const char* hex, const std::string& source, const std::string& destination) {
  Frame message = from_hex(hex);
  finish_icmp_v6(message, source, destination);
  return message;
}

Bytes join(const char* hex, const Bytes& rest) {
  Bytes whole = from_hex(hex);
  whole.insert(whole.end(), rest.begin(), rest.end());
  return whole;
}

// Both addresses of local_addresses() end in 00:0001, so they share one multicast group.
Bytes expected_report(const char* l2, int record) {
  Bytes message = from_hex(
      "8f 00 00 00 00 00 00 01  00 00 00 00 ff 02 00 00 00 00 00 00 00 00 00 01 ff 00 00 01");
  message[8] = static_cast<std::byte>(record);
  finish_icmp_v6(message, kLinkLocal, "ff02::16");
  const Bytes ip = join(
      "60 00 00 00 00 24 00 01 fe 80 00 00 00 00 00 00 00 00 00 ff fe 00 00 01 "
      "ff 02 00 00 00 00 00 00 00 00 00 00 00 00 00 16 3a 00 05 02 00 00 01 00",
      message);
  return join(l2, ip);
}

TEST(Announcements, ReportsGroupsThenNamesEveryAddress) {
  const auto frames = announcements(local_addresses());
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(to_hex(frames[0]),
            to_hex(expected_report("33 33 00 00 00 16 02 00 00 00 00 01 86 dd", 4)));
  EXPECT_EQ(to_hex(frames[1]),
            to_hex(from_hex("ff ff ff ff ff ff 02 00 00 00 00 01 08 06 00 01 08 00 06 04 00 01 "
                            "02 00 00 00 00 01 c6 12 00 01 00 00 00 00 00 00 c6 12 00 01")));
  EXPECT_EQ(to_hex(frames[2]),
            to_hex(join("33 33 00 00 00 01 02 00 00 00 00 01 86 dd 60 00 00 00 00 20 3a ff "
                        "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 "
                        "ff 02 00 00 00 00 00 00 00 00 00 00 00 00 00 01",
                        icmp_v6("88 00 00 00 20 00 00 00 fd 00 00 00 00 00 00 00 00 00 00 00 00 00 "
                                "00 01 02 01 02 00 00 00 00 01",
                                "fd00::1", "ff02::1"))));
}

TEST(Announcements, CarryTheVlanTag) {
  const auto frames = announcements(local_addresses(100));
  ASSERT_EQ(frames.size(), 8u);
  EXPECT_EQ(to_hex(frames[4]),
            to_hex(expected_report("33 33 00 00 00 16 02 00 00 00 00 01 81 00 00 64 86 dd", 4)));
  EXPECT_EQ(to_hex(std::span(frames[5]).first(20)),
            "ff ff ff ff ff ff 02 00 00 00 00 01 81 00 00 64 08 06 00 01");
}

TEST(Announcements, StayWithinTheSmallestMtu) {
  LocalAddresses local = local_addresses();
  for (int i = 0; i < 200; ++i) {
    Ipv6Address address = local.ipv6[0];
    address[14] = static_cast<uint8_t>(i);
    address[15] = 0x77;
    local.ipv6.push_back(address);
  }
  const Bytes report = announcements(local)[0];
  EXPECT_LE(report.size(), 14u + 1280);
  EXPECT_GT(report.size(), 14u + 1280 - 20);
  const size_t records = (report.size() - 14 - 40 - 8 - 8) / 20;
  EXPECT_EQ(static_cast<unsigned>(report[14 + 40 + 8 + 7]), records);
}

TEST(Announcements, AreOnlyArpWithoutIpv6Addresses) {
  LocalAddresses local = local_addresses();
  local.ipv6.clear();
  EXPECT_EQ(announcements(local).size(), 1u);
}

class Announce : public EalTest {};

// net_ring loops sent frames back. Answering our own announcements would loop for ever.
TEST_F(Announce, LoopedBackAnnouncementsAreDropped) {
  ASSERT_EQ(rte_eal_hotplug_add("vdev", "net_ring_announce", ""), 0);
  PortConfig config;
  config.device = "net_ring_announce";
  config.pool = pool();
  const auto port = Port::open(config);
  ASSERT_TRUE(port) << port.error().message;
  const LocalAddresses local = local_addresses();
  TxBuffer tx(*port, 0);
  EXPECT_EQ(announce(tx, pool(), announcements(local)), 4u);
  EXPECT_EQ(tx.flush(0), 4u);
  rte_mbuf* mbufs[8];
  ASSERT_EQ(port->rx_burst(0, mbufs), 4);
  for (rte_mbuf* mbuf : std::span(mbufs).first(4)) {
    net::Frame frame;
    DropReason reason = parse_frame(*mbuf, false, local, frame);
    if (reason == DropReason::kNone) reason = answer_neighbour(*mbuf, frame, local);
    EXPECT_NE(reason, DropReason::kNone) << to_hex(take(mbuf));
    if (reason != DropReason::kNone) rte_pktmbuf_free(mbuf);
  }
}

TEST_F(Announce, FullPortLeaksNoBuffer) {
  ASSERT_EQ(rte_eal_hotplug_add("vdev", "net_ring_full", ""), 0);
  PortConfig config;
  config.device = "net_ring_full";
  config.pool = pool();
  const auto port = Port::open(config);
  ASSERT_TRUE(port) << port.error().message;
  size_t sent = 0;
  TxBuffer tx(*port, 0);
  while (announce(tx, pool(), announcements(local_addresses())) == 4) sent += 4;
  EXPECT_GT(sent, 0u);
  EXPECT_GT(tx.dropped(), 0u);
  rte_mbuf* mbufs[64];
  while (const uint16_t count = port->rx_burst(0, mbufs)) rte_pktmbuf_free_bulk(mbufs, count);
}

class GroupQuery : public EalTest {
 protected:
  static Packet query() {
    Packet packet = Packet::v6();
    packet.source_ip = "fe80::2";
    packet.destination_ip = "ff02::1";
    packet.destination = {0x33, 0x33, 0, 0, 0, 1};
    packet.hop_limit = 1;
    packet.protocol = 58;
    packet.extensions = {{0, bytes_of({5, 2, 0, 0, 1, 0})}};  // router alert
    packet.payload = from_hex(
        "82 00 00 00 27 10 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02 7d 00 00");
    return packet;
  }
  std::string answer(Packet packet, const LocalAddresses& local = local_addresses()) {
    finish_icmp_v6(packet.payload, packet.source_ip, packet.destination_ip);
    rte_mbuf* mbuf = mbuf_of(packet.build());
    net::Frame frame;
    DropReason reason = parse_frame(*mbuf, false, local, frame);
    if (reason == DropReason::kNone) reason = answer_neighbour(*mbuf, frame, local);
    if (reason == DropReason::kNone) return to_hex(take(mbuf));
    rte_pktmbuf_free(mbuf);
    return std::string(drop_reason_name(reason));
  }
};

TEST_F(GroupQuery, IsAnsweredByAReportToAllRouters) {
  const std::string report =
      to_hex(expected_report("33 33 00 00 00 16 02 00 00 00 00 01 86 dd", 2));
  EXPECT_EQ(answer(query()), report);
  Packet specific = query();
  specific.destination_ip = "ff02::1:ff00:1";
  specific.destination = {0x33, 0x33, 0xff, 0, 0, 1};
  EXPECT_EQ(answer(specific), report);
  Packet tagged = query();
  tagged.vlans = {{0x8100, 100}};
  EXPECT_EQ(answer(tagged, local_addresses(100)),
            to_hex(expected_report("33 33 00 00 00 16 02 00 00 00 00 01 81 00 00 64 86 dd", 2)));
}

TEST_F(GroupQuery, IsDroppedIfMalformedOrFromOffLink) {
  const auto changed = [&](auto change) {
    Packet packet = query();
    change(packet);
    return answer(packet);
  };
  EXPECT_EQ(changed([](Packet& p) { p.hop_limit = 2; }), "icmp_malformed");
  EXPECT_EQ(changed([](Packet& p) { p.source_ip = "fd00::2"; }), "icmp_malformed");
  EXPECT_EQ(changed([](Packet& p) { p.payload[1] = std::byte{1}; }), "icmp_malformed");
  EXPECT_EQ(changed([](Packet& p) { p.payload.resize(24); }), "icmp_unsupported");  // version 1
  EXPECT_EQ(changed([](Packet& p) { p.payload.resize(7); }), "icmp_malformed");
  EXPECT_EQ(changed([](Packet& p) { p.destination_ip = "ff02::1:ff00:2"; }), "ip_not_ours");
}

}  // namespace
}  // namespace itif::net::test
