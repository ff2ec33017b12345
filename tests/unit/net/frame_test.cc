// A table of frames and the drop reason that parse_frame gives each.
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

// Returns a builder of a good packet after `change`.
std::function<Frame()> with(std::function<void(Packet&)> change, Packet packet = {}) {
  return [=]() mutable {
    change(packet);
    return packet.build();
  };
}
// Returns a builder of a good packet whose bytes are passed to `change`.
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
// Sets a field of the IPv4 header and fixes its checksum.
std::function<Frame()> ipv4_field(size_t at, uint16_t value) {
  return bytes([=](Frame& f) {
    put16(f, 14 + at, value);
    fix_ipv4_checksum(f, 14);
  });
}

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

}  // namespace
}  // namespace itif::net::test
