// The fields that parse_frame fills in for a good frame, driver flags included. Damaged frames must
// not lead it out of bounds.
#include <memory>

#include "net/frame.h"
#include "packet.h"

namespace itif::net::test {
namespace {

std::string text_of(const net::test::Frame& frame, const net::Frame& parsed) {
  return to_hex(std::span(frame).subspan(parsed.payload_offset, parsed.payload_bytes));
}

TEST(ParseFrameResult, Ipv4WithOptionsPaddingAndTwoTags) {
  Packet packet;
  packet.vlans = {{0x88a8, 0x6005}, {0x8100, 0x0064}};
  packet.ipv4_options = bytes_of({1, 1, 1, 0});
  packet.padding = 9;
  const auto frame = packet.build();
  net::Frame out;
  ASSERT_EQ(parse_frame(frame, {}, local_addresses(100), out), DropReason::kNone);
  EXPECT_EQ(out.kind, net::Frame::kUdp);
  EXPECT_EQ(out.l3_offset, 22);
  EXPECT_EQ(out.l4_offset, 46);
  EXPECT_EQ(text_of(frame, out), "01 02 03 04 05");
  EXPECT_EQ(out.peer.peer_mac, kPeerMac);
  EXPECT_EQ(out.peer.our_mac, kOurMac);
  EXPECT_EQ(out.peer.num_vlans, 2);
  EXPECT_EQ(out.peer.vlan_tpid[0], 0x88a8);
  EXPECT_EQ(out.peer.vlan_tci[0], 0x6005);
  EXPECT_EQ(out.peer.vlan_tci[1], 0x0064);
  EXPECT_EQ(out.peer.ip_version, 4);
  EXPECT_EQ(to_hex(out.peer.peer_address_bytes()), "c6 12 00 02");
  EXPECT_EQ(out.peer.peer_port, kPeerPort);
  EXPECT_EQ(out.peer.our_port, kOurPort);
}

TEST(ParseFrameResult, Ipv6WithExtensionHeaders) {
  Packet packet = Packet::v6();
  packet.vlans = {{0x8100, 100}};
  packet.extensions = {{0, kRouterAlert}, {60, kPadding6}};
  const auto frame = packet.build();
  net::Frame out;
  ASSERT_EQ(parse_frame(frame, {}, local_addresses(100), out), DropReason::kNone);
  EXPECT_EQ(out.l4_offset, 18 + 40 + 16);
  EXPECT_EQ(text_of(frame, out), "01 02 03 04 05");
  EXPECT_EQ(to_hex(out.peer.peer_address_bytes()),
            "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02");
}

TEST(ParseFrameResult, TheInnerVlanDecides) {
  const LocalAddresses local = local_addresses(100);
  net::Frame out;
  const auto reason = [&](std::vector<std::pair<uint16_t, uint16_t>> vlans) {
    Packet packet;
    packet.vlans = std::move(vlans);
    return parse_frame(packet.build(), {}, local, out);
  };
  EXPECT_EQ(reason({}), DropReason::kNone);
  EXPECT_EQ(reason({{0x8100, 0}}), DropReason::kNone);
  EXPECT_EQ(reason({{0x8100, 100}}), DropReason::kNone);
  EXPECT_EQ(reason({{0x88a8, 5}, {0x8100, 100}}), DropReason::kNone);
  EXPECT_EQ(reason({{0x88a8, 100}, {0x8100, 5}}), DropReason::kVlanOther);
  EXPECT_EQ(reason({{0x88a8, 5}, {0x8100, 0}}), DropReason::kVlanOther);
}

TEST(ParseFrameResult, StrippedVlanTagIsCheckedAndKept) {
  FrameInfo info;
  info.vlan_stripped = true;
  info.vlan_tci = 100;
  net::Frame out;
  ASSERT_EQ(parse_frame(Packet().build(), info, local_addresses(100), out), DropReason::kNone);
  EXPECT_EQ(out.peer.num_vlans, 1);
  EXPECT_EQ(out.peer.vlan_tpid[0], 0x8100);
  EXPECT_EQ(out.peer.vlan_tci[0], 100);
  info.vlan_tci = 7;
  EXPECT_EQ(parse_frame(Packet().build(), info, local_addresses(100), out), DropReason::kVlanOther);
}

TEST(ParseFrameResult, ChecksumFlagsOfTheNicAreTrusted) {
  Packet packet;
  packet.checksum = 0x1111;
  auto frame = packet.build();
  frame[14 + 10] ^= std::byte{1};
  const LocalAddresses local = local_addresses();
  net::Frame out;
  FrameInfo info{ChecksumState::kGood, ChecksumState::kGood};
  EXPECT_EQ(parse_frame(frame, info, local, out), DropReason::kNone);
  info = {ChecksumState::kBad, ChecksumState::kGood};
  EXPECT_EQ(parse_frame(Packet().build(), info, local, out), DropReason::kIpChecksum);
  info = {ChecksumState::kGood, ChecksumState::kBad};
  EXPECT_EQ(parse_frame(Packet().build(), info, local, out), DropReason::kUdpChecksum);
}

// A kernel that sends into a veth leaves only the pseudo-header's sum in the checksum field.
TEST(ParseFrameResult, PartialChecksumsOfVirtualLinksAreAccepted) {
  for (Packet packet : {Packet(), Packet::v6()}) {
    const auto from = ip_bytes(packet.version, packet.source_ip);
    const auto to = ip_bytes(packet.version, packet.destination_ip);
    auto pseudo = from;
    pseudo.insert(pseudo.end(), to.begin(), to.end());
    packet.checksum = static_cast<uint16_t>(~plain_checksum(pseudo, 17 + 8 + 5));
    net::Frame out;
    FrameInfo info;
    EXPECT_EQ(parse_frame(packet.build(), info, local_addresses(), out), DropReason::kUdpChecksum);
    info.l4_checksum = ChecksumState::kPartial;
    EXPECT_EQ(parse_frame(packet.build(), info, local_addresses(), out), DropReason::kNone);
    packet.checksum ^= 1;
    EXPECT_EQ(parse_frame(packet.build(), info, local_addresses(), out), DropReason::kUdpChecksum);
    packet.checksum = -1;
    EXPECT_EQ(parse_frame(packet.build(), info, local_addresses(), out), DropReason::kNone);
  }
}

TEST(ParseFrameResult, PayloadIsAlignedForEachIpVersionAndTagCount) {
  for (Packet packet : {Packet(), Packet::v6()}) {
    for (int tags = 0; tags <= 2; ++tags) {
      packet.vlans.assign(static_cast<size_t>(tags), {0x8100, 0});
      net::Frame out;
      ASSERT_EQ(parse_frame(packet.build(), {}, local_addresses(), out), DropReason::kNone);
      EXPECT_EQ((out.payload_offset + wire::kHeaderBytes) % 4, 0u);
      EXPECT_EQ((out.payload_offset + wire::kHeaderBytes + wire::kTagBytes) % 4, 0u);
    }
  }
}

// Every prefix and every single-byte change of good frames. Reads must stay in bounds (copies are
// exact in size, so that ASan sees a violation), and so must the payload.
TEST(ParseFrameResult, DamagedFramesStayInBounds) {
  const LocalAddresses local = local_addresses();
  Packet rich = Packet::v6();
  rich.extensions = {{0, kRouterAlert}, {60, kUnknownSkip}};
  rich.vlans = {{0x88a8, 0}, {0x8100, 0}};
  Packet options;
  options.ipv4_options = bytes_of({7, 3, 4, 1, 1, 1, 1, 0});
  for (const Packet& packet : {Packet(), Packet::v6(), rich, options}) {
    const auto good = packet.build();
    const FrameInfo believe{ChecksumState::kGood, ChecksumState::kGood};
    const auto look = [&](const net::test::Frame& frame) {
      const auto exact = std::make_unique<std::byte[]>(frame.size());
      std::copy(frame.begin(), frame.end(), exact.get());
      net::Frame out;
      const std::span<const std::byte> span(exact.get(), frame.size());
      if (parse_frame(span, believe, local, out) != DropReason::kNone) return;
      EXPECT_LE(size_t{out.payload_offset} + out.payload_bytes, frame.size());
    };
    for (size_t size = 0; size <= good.size(); ++size) look({good.begin(), good.begin() + size});
    for (size_t at = 0; at < good.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        auto frame = good;
        frame[at] = static_cast<std::byte>(value);
        look(frame);
      }
    }
  }
}

class FrameOfMbuf : public EalTest {};

TEST_F(FrameOfMbuf, DriverFlagsBecomeStates) {
  rte_mbuf* mbuf = mbuf_of(Packet().build());
  FrameInfo info = frame_info(*mbuf, false);
  EXPECT_EQ(info.ip_checksum, ChecksumState::kUnknown);
  EXPECT_EQ(info.l4_checksum, ChecksumState::kUnknown);
  EXPECT_EQ(frame_info(*mbuf, true).l4_checksum, ChecksumState::kPartial);
  mbuf->ol_flags = RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_BAD | RTE_MBUF_F_RX_VLAN |
                   RTE_MBUF_F_RX_VLAN_STRIPPED;
  mbuf->vlan_tci = 9;
  info = frame_info(*mbuf, true);
  EXPECT_EQ(info.ip_checksum, ChecksumState::kGood);
  EXPECT_EQ(info.l4_checksum, ChecksumState::kBad);
  EXPECT_TRUE(info.vlan_stripped);
  EXPECT_EQ(info.vlan_tci, 9);
  mbuf->ol_flags = RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_L4_CKSUM_NONE;
  info = frame_info(*mbuf, true);
  EXPECT_EQ(info.ip_checksum, ChecksumState::kBad);
  EXPECT_EQ(info.l4_checksum, ChecksumState::kGood);
  rte_pktmbuf_free(mbuf);
}

TEST_F(FrameOfMbuf, ChainsAreJoinedIfTheyFit) {
  Packet packet;
  packet.payload.assign(1000, std::byte{7});
  const auto frame = packet.build();
  for (const size_t tail_bytes : {size_t{500}, size_t{2000}}) {
    auto whole = frame;
    whole.resize(500 + tail_bytes);
    rte_mbuf* head = mbuf_of(std::span(whole).first(500));
    rte_mbuf* tail = mbuf_of(std::span(whole).subspan(500));
    ASSERT_EQ(rte_pktmbuf_chain(head, tail), 0);
    net::Frame out;
    const DropReason reason = parse_frame(*head, false, local_addresses(), out);
    if (tail_bytes == 2000) {
      EXPECT_EQ(reason, DropReason::kMultiSegment);
    } else {
      // The chain holds 1000 of the frame's 1042 bytes, fewer than its IP length says.
      EXPECT_EQ(reason, DropReason::kIpMalformed);
      EXPECT_EQ(head->nb_segs, 1);
    }
    rte_pktmbuf_free(head);
  }
  rte_mbuf* head = mbuf_of(std::span(frame).first(100));
  ASSERT_EQ(rte_pktmbuf_chain(head, mbuf_of(std::span(frame).subspan(100))), 0);
  net::Frame out;
  ASSERT_EQ(parse_frame(*head, false, local_addresses(), out), DropReason::kNone);
  EXPECT_EQ(udp_payload(*head, out).size(), 1000u);
  EXPECT_EQ(udp_payload(*head, out)[999], std::byte{7});
  rte_pktmbuf_free(head);
}

}  // namespace
}  // namespace itif::net::test
