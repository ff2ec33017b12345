// Neighbour and echo requests, and the exact reply to each. Expected frames are written by hand.
#include "net/neighbour.h"

#include "packet.h"

namespace itif::net::test {
namespace {

class Neighbour : public EalTest {
 protected:
  // Returns the reply to `frame` in hexadecimal, or the drop reason's name.
  std::string answer(const net::test::Frame& frame, const LocalAddresses& local = local_addresses(),
                     bool vlan_stripped = false) {
    rte_mbuf* mbuf = mbuf_of(frame);
    if (vlan_stripped) {
      mbuf->ol_flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
      mbuf->vlan_tci = local.vlan;
    }
    net::Frame parsed;
    reason_ = parse_frame(*mbuf, false, local, parsed);
    if (reason_ == DropReason::kNone) reason_ = answer_neighbour(*mbuf, parsed, local);
    if (reason_ != DropReason::kNone) {
      rte_pktmbuf_free(mbuf);
      return std::string(drop_reason_name(reason_));
    }
    EXPECT_EQ(mbuf->ol_flags, 0u);
    return to_hex(take(mbuf));
  }
  // The same for a datagram to a port that is not ours; "none" without a reply.
  std::string answer_other(const net::test::Frame& frame) {
    rte_mbuf* mbuf = mbuf_of(frame);
    net::Frame parsed;
    EXPECT_EQ(parse_frame(*mbuf, false, local_addresses(), parsed), DropReason::kUdpOtherPort);
    if (answer_other_port(*mbuf, parsed)) return to_hex(take(mbuf));
    rte_pktmbuf_free(mbuf);
    return "none";
  }
  static std::string hex(const char* text) { return to_hex(from_hex(text)); }

  DropReason reason_ = DropReason::kNone;
};

const char* const kArpQuestion =
    "ff ff ff ff ff ff 02 00 00 00 00 99 08 06 "
    "00 01 08 00 06 04 00 01 02 00 00 00 00 99 c6 12 00 02 00 00 00 00 00 00 c6 12 00 01";

TEST_F(Neighbour, ArpRequest) {
  auto question = from_hex(kArpQuestion);
  question.resize(60);  // Ethernet's minimum
  EXPECT_EQ(answer(question), hex("02 00 00 00 00 99 02 00 00 00 00 01 08 06 "
                                  "00 01 08 00 06 04 00 02 02 00 00 00 00 01 c6 12 00 01 "
                                  "02 00 00 00 00 99 c6 12 00 02"));
}

TEST_F(Neighbour,
       ArpProbeWithoutSourceAddressIsAnswered) {  // RFC 5227: the prober must see the conflict
  auto question = from_hex(kArpQuestion);
  for (size_t i = 28; i < 32; ++i) question[i] = std::byte{0};
  EXPECT_EQ(answer(question), hex("02 00 00 00 00 99 02 00 00 00 00 01 08 06 "
                                  "00 01 08 00 06 04 00 02 02 00 00 00 00 01 c6 12 00 01 "
                                  "02 00 00 00 00 99 00 00 00 00"));
}

// The kernel's end of a tap has our own MAC address and sends ARP requests.
TEST_F(Neighbour, ArpFromOurMacAddressIsAnswered) {
  auto question = from_hex(kArpQuestion);
  question[11] = question[27] = std::byte{1};
  EXPECT_EQ(answer(question), hex("02 00 00 00 00 01 02 00 00 00 00 01 08 06 "
                                  "00 01 08 00 06 04 00 02 02 00 00 00 00 01 c6 12 00 01 "
                                  "02 00 00 00 00 01 c6 12 00 02"));
  question[31] = std::byte{1};  // with our IP address, too: our own announcement
  EXPECT_EQ(answer(question), "arp_not_ours");
}

// RFC 5227, section 2.4: any ARP packet with our address as its sender's.
TEST_F(Neighbour, AnotherHostWithOurAddressIsAConflict) {
  auto announcement = from_hex(kArpQuestion);
  announcement[31] = std::byte{1};  // sender: our IP address, its MAC address
  EXPECT_EQ(answer(announcement), "address_conflict");
  announcement[21] = std::byte{2};  // a reply
  EXPECT_EQ(answer(announcement), "address_conflict");

  // An unsolicited neighbour advertisement from fd00::1, which is ours.
  auto advertisement = from_hex(
      "33 33 00 00 00 01 02 00 00 00 00 99 86 dd 60 00 00 00 00 18 3a ff "
      "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 ff 02 00 00 00 00 00 00 00 00 00 00 00 00 "
      "00 01 "
      "88 00 00 00 20 00 00 00 fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01");
  EXPECT_EQ(answer(advertisement), "address_conflict");
  advertisement[11] = std::byte{1};  // our own, on a link that loops back
  EXPECT_EQ(answer(advertisement), "source_invalid");
  advertisement[11] = std::byte{0x99};
  advertisement[21] = std::byte{64};  // from elsewhere: forged
  EXPECT_EQ(answer(advertisement), "source_invalid");
}

TEST_F(Neighbour, ArpInAVlanIsAnsweredInThatVlan) {
  auto question = from_hex(kArpQuestion);
  const auto tag = from_hex("81 00 60 64");
  question.insert(question.begin() + 12, tag.begin(), tag.end());
  const std::string expected =
      hex("02 00 00 00 00 99 02 00 00 00 00 01 81 00 60 64 08 06 "
          "00 01 08 00 06 04 00 02 02 00 00 00 00 01 c6 12 00 01 02 00 00 00 00 99 c6 12 00 02");
  EXPECT_EQ(answer(question, local_addresses(100)), expected);
}

TEST_F(Neighbour, ArpWithStrippedVlanTagIsAnsweredWithTheTag) {
  EXPECT_EQ(answer(from_hex(kArpQuestion), local_addresses(100), true),
            hex("02 00 00 00 00 99 02 00 00 00 00 01 81 00 00 64 08 06 "
                "00 01 08 00 06 04 00 02 02 00 00 00 00 01 c6 12 00 01 "
                "02 00 00 00 00 99 c6 12 00 02"));
}

TEST_F(Neighbour, ArpForOthersOrMalformedIsDropped) {
  auto other = from_hex(kArpQuestion);
  other.back() = std::byte{7};
  EXPECT_EQ(answer(other), "arp_not_ours");
  auto reply = from_hex(kArpQuestion);
  reply[21] = std::byte{2};
  EXPECT_EQ(answer(reply), "arp_not_ours");
  for (const size_t at : {14u, 16u, 18u, 19u}) {  // hardware, protocol, lengths
    auto malformed = from_hex(kArpQuestion);
    malformed[at] ^= std::byte{1};
    EXPECT_EQ(answer(malformed), "arp_malformed") << at;
  }
}

net::test::Frame echo(size_t data_bytes, uint8_t type) {
  auto message = bytes_of({type, 0, 0, 0, 0x12, 0x34, 0, 1});
  for (size_t i = 0; i < data_bytes; ++i) message.push_back(static_cast<std::byte>(i * 7));
  if (type == 8) put16(message, 2, plain_checksum(message));
  return message;
}

TEST_F(Neighbour, PingOfEverySize) {
  for (const size_t data : {0u, 1u, 18u, 56u, 1465u, 1472u}) {
    Packet question;
    question.protocol = 1;
    question.payload = echo(data, 8);
    question.padding = data < 18 ? 18 - data : 0;
    Packet expected;
    expected.destination = kPeerMac;
    expected.source = kOurMac;
    std::swap(expected.source_ip, expected.destination_ip);
    expected.protocol = 1;
    expected.payload = echo(data, 8);
    expected.payload[0] = std::byte{0};
    put16(expected.payload, 2, 0);
    put16(expected.payload, 2, plain_checksum(expected.payload));
    auto frame = expected.build();
    put16(frame, 18, 0);  // identification 0
    fix_ipv4_checksum(frame, 14);
    EXPECT_EQ(answer(question.build()), to_hex(frame)) << data;
  }
}

// Quotes the headers, and nothing of the payload, so that it cannot be used to amplify.
TEST_F(Neighbour, ADatagramToAnotherPortIsAnsweredWithItsHeaders) {
  for (const int version : {4, 6}) {
    Packet question = version == 4 ? Packet() : Packet::v6();
    question.destination_port = 9;
    question.payload = Frame(1000, std::byte{5});
    const auto asked = question.build();
    const size_t ip_bytes = version == 4 ? 20 : 40;
    Packet expected = version == 4 ? Packet() : Packet::v6();
    expected.destination = kPeerMac;
    expected.source = kOurMac;
    std::swap(expected.source_ip, expected.destination_ip);
    expected.protocol = version == 4 ? 1 : 58;
    expected.payload =
        version == 4 ? bytes_of({3, 3, 0, 0, 0, 0, 0, 0}) : bytes_of({1, 4, 0, 0, 0, 0, 0, 0});
    expected.payload.insert(expected.payload.end(), asked.begin() + 14,
                            asked.begin() + 14 + static_cast<long>(ip_bytes) + 8);
    if (version == 4)
      put16(expected.payload, 2, plain_checksum(expected.payload));
    else
      finish_icmp_v6(expected.payload, expected.source_ip, expected.destination_ip);
    auto frame = expected.build();
    if (version == 4) {
      put16(frame, 18, 0);  // identification 0
      fix_ipv4_checksum(frame, 14);
    }
    EXPECT_EQ(answer_other(asked), to_hex(frame)) << version;

    Packet extended = question;
    for (int i = 0; version == 6 && i < 4; ++i)
      extended.extensions.push_back({60, bytes_of({5, 2, 0, 0, 1, 0})});
    EXPECT_NE(answer_other(extended.build()), "none");
    Packet brief = question;
    brief.payload.resize(5);
    EXPECT_EQ(answer_other(brief.build()), "none") << version;
    question.source_port = 0;
    EXPECT_EQ(answer_other(question.build()), "none") << version;
  }
}

TEST_F(Neighbour, PingWithOptionsAndTagsIsAnsweredWithoutTheOptions) {
  Packet question;
  question.protocol = 1;
  question.payload = echo(3, 8);
  question.vlans = {{0x88a8, 5}, {0x8100, 100}};
  const std::string without = answer(question.build(), local_addresses(100));
  question.ipv4_options = bytes_of({7, 7, 4, 0, 0, 0, 0, 0});
  EXPECT_EQ(answer(question.build(), local_addresses(100)), without);
  EXPECT_EQ(without.size(), (14u + 8 + 20 + 11) * 3 - 1);
}

TEST_F(Neighbour, PingV6OfEverySize) {
  for (const size_t data : {0u, 1u, 56u, 1452u}) {
    Packet question = Packet::v6();
    question.protocol = 58;
    question.payload = echo(data, 128);
    finish_icmp_v6(question.payload, "fd00::2", "fd00::1");
    Packet expected = Packet::v6();
    expected.destination = kPeerMac;
    expected.source = kOurMac;
    std::swap(expected.source_ip, expected.destination_ip);
    expected.protocol = 58;
    expected.payload = echo(data, 129);
    finish_icmp_v6(expected.payload, "fd00::1", "fd00::2");
    EXPECT_EQ(answer(question.build()), to_hex(expected.build())) << data;
  }
}

TEST_F(Neighbour, InvalidPingsAreDropped) {
  Packet question;
  question.protocol = 1;
  question.payload = echo(8, 8);
  question.payload.back() ^= std::byte{1};
  EXPECT_EQ(answer(question.build()), "icmp_checksum");
  question.payload = bytes_of({8, 0, 0xf7, 0xff, 0});
  EXPECT_EQ(answer(question.build()), "icmp_malformed");
  question.payload = bytes_of({8, 1, 0, 0, 0, 0, 0, 0});  // an undefined code
  put16(question.payload, 2, plain_checksum(question.payload));
  EXPECT_EQ(answer(question.build()), "icmp_unsupported");
  question.payload = bytes_of({0, 0, 0xff, 0xff, 0, 0, 0, 0});  // an echo reply
  EXPECT_EQ(answer(question.build()), "icmp_unsupported");

  Packet v6 = Packet::v6();
  v6.protocol = 58;
  v6.payload = echo(8, 128);
  EXPECT_EQ(answer(v6.build()), "icmp_checksum");
  v6.payload = echo(0, 128);
  v6.payload.resize(7);
  EXPECT_EQ(answer(v6.build()), "icmp_malformed");
  v6.destination_ip = "ff02::1";
  v6.destination = {0x33, 0x33, 0, 0, 0, 1};
  v6.payload = echo(8, 128);
  finish_icmp_v6(v6.payload, "fd00::2", "ff02::1");
  EXPECT_EQ(answer(v6.build()), "icmp_unsupported");
}

Packet solicitation(const std::string& source, const std::string& destination,
                    const std::string& target, bool with_option) {
  Packet packet = Packet::v6();
  packet.source_ip = source;
  packet.destination_ip = destination;
  if (destination.starts_with("ff")) {
    const auto address = ip_bytes(6, destination);
    packet.destination = {0x33, 0x33};
    for (size_t i = 0; i < 4; ++i)
      packet.destination[2 + i] = static_cast<uint8_t>(address[12 + i]);
  }
  packet.protocol = 58;
  packet.hop_limit = 255;
  packet.payload = bytes_of({135, 0, 0, 0, 0, 0, 0, 0});
  const auto bytes = ip_bytes(6, target);
  packet.payload.insert(packet.payload.end(), bytes.begin(), bytes.end());
  if (with_option) {
    const auto option = from_hex("01 01 02 00 00 00 00 99");
    packet.payload.insert(packet.payload.end(), option.begin(), option.end());
  }
  finish_icmp_v6(packet.payload, source, destination);
  return packet;
}

TEST_F(Neighbour, SolicitationByMulticast) {
  EXPECT_EQ(answer(solicitation("fd00::2", "ff02::1:ff00:1", "fd00::1", true).build()),
            hex("02 00 00 00 00 99 02 00 00 00 00 01 86 dd "
                "60 00 00 00 00 20 3a ff "
                "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 "
                "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02 "
                "88 00 1c 9c 60 00 00 00 fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 "
                "02 01 02 00 00 00 00 01"));
}

TEST_F(Neighbour, SolicitationByUnicastWithoutOption) {
  // The answer is the same: it includes the link-layer address option.
  EXPECT_EQ(answer(solicitation("fd00::2", "fd00::1", "fd00::1", false).build()),
            answer(solicitation("fd00::2", "ff02::1:ff00:1", "fd00::1", true).build()));
}

TEST_F(Neighbour, SolicitationOfTheLinkLocalAddress) {
  const std::string answered =
      answer(solicitation("fe80::2", "ff02::1:ff00:1", "fe80::ff:fe00:1", true).build());
  EXPECT_EQ(answered.substr(0, 41), hex("02 00 00 00 00 99 02 00 00 00 00 01 86 dd"));
  EXPECT_NE(answered.find(hex("fe 80 00 00 00 00 00 00 00 00 00 ff fe 00 00 01")),
            std::string::npos);
}

TEST_F(Neighbour, DuplicateAddressDetectionIsAnsweredByMulticast) {
  EXPECT_EQ(answer(solicitation("::", "ff02::1:ff00:1", "fd00::1", false).build()),
            hex("33 33 00 00 00 01 02 00 00 00 00 01 86 dd "
                "60 00 00 00 00 20 3a ff "
                "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 "
                "ff 02 00 00 00 00 00 00 00 00 00 00 00 00 00 01 "
                "88 00 5a 9b 20 00 00 00 fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 "
                "02 01 02 00 00 00 00 01"));
}

TEST_F(Neighbour, InvalidSolicitationsAreDropped) {
  const auto changed = [&](auto change) {
    Packet packet = solicitation("fd00::2", "ff02::1:ff00:1", "fd00::1", true);
    change(packet);
    finish_icmp_v6(packet.payload, packet.source_ip, packet.destination_ip);
    return answer(packet.build());
  };
  EXPECT_EQ(changed([](Packet& p) { p.hop_limit = 254; }), "icmp_malformed");  // from off the link
  EXPECT_EQ(changed([](Packet& p) { p.payload[1] = std::byte{1}; }), "icmp_malformed");
  EXPECT_EQ(changed([](Packet& p) { p.payload.resize(23); }), "icmp_malformed");
  EXPECT_EQ(changed([](Packet& p) { p.payload.resize(28); }), "icmp_malformed");
  EXPECT_EQ(changed([](Packet& p) { p.payload[25] = std::byte{0}; }), "icmp_malformed");
  EXPECT_EQ(changed([](Packet& p) { p.payload[25] = std::byte{2}; }), "icmp_malformed");
  EXPECT_EQ(changed([](Packet& p) { p.payload[8] = std::byte{0xff}; }), "icmp_malformed");
  EXPECT_EQ(changed([](Packet& p) { p.payload[22] = std::byte{7}; }), "icmp_unsupported");
  EXPECT_EQ(changed([](Packet& p) { p.payload[0] = std::byte{136}; }), "address_conflict");
  // Duplicate address detection names no link-layer address and asks by multicast.
  EXPECT_EQ(answer(solicitation("::", "ff02::1:ff00:1", "fd00::1", true).build()),
            "icmp_malformed");
  EXPECT_EQ(answer(solicitation("::", "fd00::1", "fd00::1", false).build()), "icmp_malformed");
  EXPECT_EQ(answer(solicitation("::", "ff02::1", "fd00::1", false).build()), "icmp_malformed");
  Packet ping = solicitation("::", "fd00::1", "fd00::1", false);
  ping.payload = echo(0, 128);
  finish_icmp_v6(ping.payload, "::", "fd00::1");
  EXPECT_EQ(answer(ping.build()), "source_invalid");
}

}  // namespace
}  // namespace itif::net::test
