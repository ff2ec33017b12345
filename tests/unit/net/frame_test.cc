// Packet in, reason out: every way a frame can end in parse_frame, and what a good one says.
#include "net/frame.h"

#include <functional>

#include "packet.h"

namespace itif::net::test {
namespace {

struct Case {
  const char* name;
  std::function<Frame()> frame;
  DropReason expected;
};

// `change` applied to a good packet.
std::function<Frame()> with(std::function<void(Packet&)> change, Packet packet = {}) {
  return [=]() mutable {
    change(packet);
    return packet.build();
  };
}
// `change` applied to a good packet's bytes.
std::function<Frame()> bytes(std::function<void(Frame&)> change, Packet packet = {}) {
  return [=] {
    Frame frame = packet.build();
    change(frame);
    return frame;
  };
}
std::function<Frame()> with_v6(std::function<void(Packet&)> change) {
  return with(std::move(change), Packet::v6());
}
std::function<Frame()> bytes_v6(std::function<void(Frame&)> change) {
  return bytes(std::move(change), Packet::v6());
}
std::function<Frame()> cut_to(size_t size, Packet packet = {}) {
  return bytes([=](Frame& f) { f.resize(size); }, packet);
}
// Sets a field of the IPv4 header and makes its checksum right again.
std::function<Frame()> ipv4_field(size_t at, uint16_t value) {
  return bytes([=](Frame& f) {
    put16(f, 14 + at, value);
    fix_ipv4_checksum(f, 14);
  });
}

const Frame kPadding6 = bytes_of({1, 4, 0, 0, 0, 0});        // PadN
const Frame kRouterAlert = bytes_of({5, 2, 0, 0, 1, 0});     // and PadN(0)
const Frame kUnknownSkip = bytes_of({0x1e, 4, 9, 9, 9, 9});  // 00: skip
const Frame kUnknownStop = bytes_of({0x9e, 4, 9, 9, 9, 9});  // 10: discard
const Frame kLyingOption = bytes_of({0x1e, 9, 9, 9, 9, 9});
const Frame kCutOption = bytes_of({1, 3, 0, 0, 0, 7});

using enum DropReason;
const Case kCases[] = {
    {"ipv4", with([](Packet&) {}), kNone},
    {"ipv6", with_v6([](Packet&) {}), kNone},
    {"empty", [] { return Frame{}; }, kRunt},
    {"cut_ethernet", cut_to(13), kRunt},
    {"cut_vlan",
     cut_to(17,
            [] {
              Packet p;
              p.vlans = {{0x8100, 0}};
              return p;
            }()),
     kRunt},
    {"cut_ipv4", cut_to(33), kRunt},
    {"cut_ipv6", cut_to(53, Packet::v6()), kRunt},
    {"cut_arp", [] { return from_hex("02 00 00 00 00 01 02 00 00 00 00 99 08 06 00 01"); }, kRunt},
    {"other_mac", with([](Packet& p) { p.destination[5] = 2; }), kNotEthernetOurs},
    {"broadcast_mac_to_our_ipv4", with([](Packet& p) { p.destination.fill(0xff); }),
     kNotEthernetOurs},
    {"multicast_mac_to_our_ipv6",
     with_v6([](Packet& p) { p.destination = {0x33, 0x33, 0, 0, 0, 1}; }), kNotEthernetOurs},
    {"other_ether_type", bytes([](Frame& f) { put16(f, 12, 0x88cc); }), kNotEthernetOurs},
    {"length_instead_of_type", bytes([](Frame& f) { put16(f, 12, 60); }), kNotEthernetOurs},
    {"multicast_source_mac", with([](Packet& p) { p.source[0] = 3; }), kSourceInvalid},
    {"priority_tag", with([](Packet& p) {
       p.vlans = {{0x8100, 0xe000}};
     }),
     kNone},
    {"other_vlan", with([](Packet& p) {
       p.vlans = {{0x8100, 7}};
     }),
     kVlanOther},
    {"three_tags", with([](Packet& p) {
       p.vlans = {{0x88a8, 0}, {0x8100, 0}, {0x8100, 0}};
     }),
     kVlanOther},

    {"ipv4_version_5", bytes([](Frame& f) { f[14] = std::byte{0x55}; }), kIpMalformed},
    {"ipv4_header_of_16", bytes([](Frame& f) { f[14] = std::byte{0x44}; }), kIpMalformed},
    {"ipv4_header_behind_end", bytes([](Frame& f) { f[14] = std::byte{0x4f}; }), kIpMalformed},
    {"ipv4_total_below_header", ipv4_field(2, 19), kIpMalformed},
    {"ipv4_total_behind_end", ipv4_field(2, 1500), kIpMalformed},
    {"ipv4_cut_by_one", bytes([](Frame& f) { f.pop_back(); }), kIpMalformed},
    {"ipv4_bad_checksum", bytes([](Frame& f) { f[14 + 8] ^= std::byte{1}; }), kIpChecksum},
    {"ipv4_first_fragment", with([](Packet& p) { p.flags_and_fragment = 0x2000; }), kIpFragment},
    {"ipv4_later_fragment", with([](Packet& p) { p.flags_and_fragment = 0x0010; }), kIpFragment},
    {"ipv4_without_df", with([](Packet& p) { p.flags_and_fragment = 0; }), kNone},
    {"ipv4_other_destination", with([](Packet& p) { p.destination_ip = "198.18.0.3"; }),
     kIpNotOurs},
    {"ipv4_from_ourselves", with([](Packet& p) { p.source_ip = "198.18.0.1"; }), kSourceInvalid},
    {"ipv4_from_multicast", with([](Packet& p) { p.source_ip = "224.0.0.1"; }), kSourceInvalid},
    {"ipv4_from_broadcast", with([](Packet& p) { p.source_ip = "255.255.255.255"; }),
     kSourceInvalid},
    {"ipv4_from_loopback", with([](Packet& p) { p.source_ip = "127.0.0.1"; }), kSourceInvalid},
    {"ipv4_from_nowhere", with([](Packet& p) { p.source_ip = "0.0.0.0"; }), kSourceInvalid},
    {"ipv4_nop_options", with([](Packet& p) {
       p.ipv4_options = bytes_of({1, 1, 1, 0});
     }),
     kNone},
    {"ipv4_record_route", with([](Packet& p) {
       p.ipv4_options = bytes_of({7, 3, 4, 0});
     }),
     kNone},
    {"ipv4_loose_source_route", with([](Packet& p) {
       p.ipv4_options = bytes_of({131, 3, 4, 0});
     }),
     kIpHeaderUnsupported},
    {"ipv4_strict_source_route", with([](Packet& p) {
       p.ipv4_options = bytes_of({1, 137, 3, 4});
     }),
     kIpHeaderUnsupported},
    {"ipv4_option_of_length_0", with([](Packet& p) {
       p.ipv4_options = bytes_of({7, 0, 0, 0});
     }),
     kIpMalformed},
    {"ipv4_option_too_long", with([](Packet& p) {
       p.ipv4_options = bytes_of({7, 5, 0, 0});
     }),
     kIpMalformed},
    {"ipv4_option_without_length", with([](Packet& p) {
       p.ipv4_options = bytes_of({1, 1, 1, 7});
     }),
     kIpMalformed},
    {"ipv4_tcp", with([](Packet& p) { p.protocol = 6; }), kIpProtocolOther},
    {"ipv4_icmp_v6", with([](Packet& p) { p.protocol = 58; }), kIpProtocolOther},

    {"ipv6_version_4", bytes_v6([](Frame& f) { f[14] = std::byte{0x45}; }), kIpMalformed},
    {"ipv6_no_payload", bytes_v6([](Frame& f) { put16(f, 18, 0); }), kIpMalformed},
    {"ipv6_payload_behind_end", bytes_v6([](Frame& f) { put16(f, 18, 14); }), kIpMalformed},
    {"ipv6_other_destination", with_v6([](Packet& p) { p.destination_ip = "fd00::3"; }),
     kIpNotOurs},
    {"ipv6_other_multicast", with_v6([](Packet& p) {
       p.destination_ip = "ff02::1:ff00:7";
       p.protocol = 58;
     }),
     kIpNotOurs},
    {"ipv6_udp_to_all_nodes", with_v6([](Packet& p) { p.destination_ip = "ff02::1"; }), kIpNotOurs},
    {"ipv6_from_ourselves", with_v6([](Packet& p) { p.source_ip = "fd00::1"; }), kSourceInvalid},
    {"ipv6_from_multicast", with_v6([](Packet& p) { p.source_ip = "ff02::1"; }), kSourceInvalid},
    {"ipv6_from_loopback", with_v6([](Packet& p) { p.source_ip = "::1"; }), kSourceInvalid},
    {"ipv6_udp_from_nowhere", with_v6([](Packet& p) { p.source_ip = "::"; }), kSourceInvalid},
    {"ipv6_to_link_local", with_v6([](Packet& p) { p.destination_ip = "fe80::ff:fe00:1"; }), kNone},
    {"ipv6_hop_by_hop", with_v6([](Packet& p) {
       p.extensions = {{0, kRouterAlert}};
     }),
     kNone},
    {"ipv6_four_extensions", with_v6([](Packet& p) {
       p.extensions = {{0, kPadding6}, {60, kUnknownSkip}, {60, kPadding6}, {60, kPadding6}};
     }),
     kNone},
    {"ipv6_five_extensions", with_v6([](Packet& p) {
       p.extensions = {
           {0, kPadding6}, {60, kPadding6}, {60, kPadding6}, {60, kPadding6}, {60, kPadding6}};
     }),
     kIpHeaderUnsupported},
    {"ipv6_late_hop_by_hop", with_v6([](Packet& p) {
       p.extensions = {{60, kPadding6}, {0, kPadding6}};
     }),
     kIpMalformed},
    {"ipv6_option_that_must_not_be_skipped", with_v6([](Packet& p) {
       p.extensions = {{60, kUnknownStop}};
     }),
     kIpHeaderUnsupported},
    {"ipv6_lying_option", with_v6([](Packet& p) {
       p.extensions = {{60, kLyingOption}};
     }),
     kIpMalformed},
    {"ipv6_cut_option", with_v6([](Packet& p) {
       p.extensions = {{60, kCutOption}};
     }),
     kIpMalformed},
    {"ipv6_extension_behind_end", bytes_v6([](Frame& f) {
       f[20] = std::byte{60};
       f[54] = std::byte{17};
       f[55] = std::byte{9};
     }),
     kIpMalformed},
    {"ipv6_extension_cut_short", bytes_v6([](Frame& f) {
       f[20] = std::byte{60};
       put16(f, 18, 7);
     }),
     kIpMalformed},
    {"ipv6_routing", with_v6([](Packet& p) {
       p.extensions = {{43, bytes_of({0, 1, 0, 0, 0, 0})}};
     }),
     kIpHeaderUnsupported},
    {"ipv6_fragment", with_v6([](Packet& p) {
       p.extensions = {{44, bytes_of({0, 1, 0, 0, 0, 9})}};
     }),
     kIpFragment},
    {"ipv6_icmp_v4", with_v6([](Packet& p) { p.protocol = 1; }), kIpProtocolOther},

    {"udp_cut_short", with([](Packet& p) {
       p.protocol = 17;
       p.payload.clear();
     }),
     kNone},
    {"udp_header_cut", bytes([](Frame& f) {
       put16(f, 16, 27);
       fix_ipv4_checksum(f, 14);
     }),
     kUdpMalformed},
    {"udp_length_7", bytes([](Frame& f) { put16(f, 38, 7); }), kUdpMalformed},
    {"udp_length_behind_ip", bytes([](Frame& f) { put16(f, 38, 14); }), kUdpMalformed},
    {"udp_length_0", bytes_v6([](Frame& f) { put16(f, 58, 0); }), kUdpMalformed},
    {"udp_other_port", with([](Packet& p) { p.destination_port = 53; }), kUdpOtherPort},
    {"udp_from_port_0", with([](Packet& p) { p.source_port = 0; }), kSourceInvalid},
    {"udp_bad_payload", bytes([](Frame& f) { f.back() ^= std::byte{0x10}; }), kUdpChecksum},
    {"udp_bad_checksum", with([](Packet& p) { p.checksum = 0x1111; }), kUdpChecksum},
    {"udp_no_checksum", with([](Packet& p) { p.checksum = 0; }), kNone},
    {"udp_no_checksum_over_ipv6", with_v6([](Packet& p) { p.checksum = 0; }), kUdpChecksum},
    {"udp_bad_payload_over_ipv6", bytes_v6([](Frame& f) { f.back() ^= std::byte{1}; }),
     kUdpChecksum},
};

class ParseFrame : public testing::TestWithParam<Case> {};

TEST_P(ParseFrame, EndsAsExpected) {
  const LocalAddresses local = local_addresses();
  const net::test::Frame frame = GetParam().frame();
  net::Frame out;
  EXPECT_EQ(drop_reason_name(parse_frame(frame, {}, local, out)),
            drop_reason_name(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(Table, ParseFrame, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

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

TEST(ParseFrameResult, Ipv6BehindExtensions) {
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

TEST(ParseFrameResult, ATagThatTheNicTookOutCountsAndComesBack) {
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

TEST(ParseFrameResult, WhatTheNicSaysOfChecksumsIsBelieved) {
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

// A kernel sending into a veth leaves the pseudo-header's sum in the field.
TEST(ParseFrameResult, PartialChecksumsOfVirtualLinks) {
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

TEST(ParseFrameResult, PayloadIsAlignedOverBothVersionsWithAnyTags) {
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

// Every prefix and every single-byte change of good frames: nothing may be read out of bounds (the
// copies are exact, so that ASan sees it) and the payload stays inside.
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
      // 42 bytes of headers behind 500 + 500 of the frame: cut, as the length shows.
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
