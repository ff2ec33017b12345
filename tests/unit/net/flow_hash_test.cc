#include "net/flow_hash.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "net/frame.h"
#include "packet.h"

namespace itif::net::test {
namespace {

constexpr uint64_t kSeed = 0x1234'5678'9abc'def0;

uint32_t hash_of(const Packet& packet) {
  const auto hash = flow_hash(packet.build(), kSeed);
  EXPECT_TRUE(hash);
  return hash.value_or(0);
}

TEST(FlowHash, IsTheSameForAllDatagramsOfAFlow) {
  for (const Packet& first : {Packet(), Packet::v6()}) {
    const uint32_t hash = hash_of(first);
    Packet other = first;
    other.payload = bytes_of({9, 9, 9});
    other.vlans = {{0x88a8, 5}, {0x8100, 7}};
    other.hop_limit = 3;
    other.padding = 11;
    other.source = kOurMac;
    other.destination_port = 77;
    other.destination_ip = first.version == 4 ? "198.18.0.7" : "fd00::7";
    EXPECT_EQ(hash_of(other), hash);
    if (first.version == 4)
      other.ipv4_options = bytes_of({1, 1, 1, 1});
    else
      other.extensions = {{0, kRouterAlert}, {60, kPadding6}, {60, kPadding6}};
    EXPECT_EQ(hash_of(other), hash);
  }
}

TEST(FlowHash, DiffersByAddressPortAndSeed) {
  for (const Packet& first : {Packet(), Packet::v6()}) {
    const uint32_t hash = hash_of(first);
    Packet port = first, address = first;
    port.source_port = kPeerPort + 1;
    address.source_ip = first.version == 4 ? "198.18.0.3" : "fd00:0:1::2";
    EXPECT_NE(hash_of(port), hash);
    EXPECT_NE(hash_of(address), hash);
    address.source_ip = first.version == 4 ? "199.18.0.2" : "fd00::3";
    EXPECT_NE(hash_of(address), hash);
    EXPECT_NE(flow_hash(first.build(), kSeed + 1), hash);
  }
}

TEST(FlowHash, SpreadsPortsAndAddressesEvenly) {
  for (const int workers : {2, 3, 8}) {
    std::map<uint64_t, int> counts;
    constexpr int kFlows = 4000;
    for (int i = 0; i < kFlows; ++i) {
      Packet packet = i % 2 == 0 ? Packet() : Packet::v6();
      if (i % 4 < 2) packet.source_port = static_cast<uint16_t>(20000 + i);
      packet.source_ip = packet.version == 4 ? "10.1.0." + std::to_string(i % 250)
                                             : "fd00::" + std::to_string(1 + i);
      packet.checksum = 0;
      ++counts[uint64_t{hash_of(packet)} * static_cast<uint64_t>(workers) >> 32];
    }
    EXPECT_EQ(counts.size(), static_cast<size_t>(workers));
    for (const auto& [worker, count] : counts)
      EXPECT_NEAR(count, kFlows / workers, kFlows / workers / 4) << worker << " of " << workers;
  }
}

TEST(FlowHash, AllButUdpHasNone) {
  Packet icmp, fragment, no_next = Packet::v6(), many = Packet::v6();
  icmp.protocol = 1;
  fragment.flags_and_fragment = 0x2000;
  no_next.protocol = 59;
  many.extensions.assign(kMaxExtensionHeaders + 1, {60, kPadding6});
  for (const Packet& packet : {icmp, fragment, no_next, many})
    EXPECT_FALSE(flow_hash(packet.build(), kSeed));
  net::test::Frame arp = Packet().build();
  put16(arp, 12, 0x0806);
  EXPECT_FALSE(flow_hash(arp, kSeed));
}

// Any datagram that parse_frame() accepts has the hash of its flow.
TEST(FlowHash, AgreesWithTheParser) {
  Random random(11);
  const LocalAddresses local = local_addresses();
  uint64_t accepted = 0;
  for (int round = 0; round < 40'000; ++round) {
    Packet packet = random.below(2) == 0 ? Packet() : Packet::v6();
    packet.vlans.resize(random.below(3), {0x8100, 0});
    packet.checksum = packet.version == 4 ? 0 : -1;
    if (packet.version == 4 && random.below(2) == 0) packet.ipv4_options = bytes_of({1, 1, 1, 0});
    if (packet.version == 6) packet.extensions.resize(random.below(6), {60, kPadding6});
    auto bytes = packet.build();
    if (random.below(2) == 0) bytes.resize(random.below(bytes.size() + 1));
    for (uint64_t damage = random.below(3); damage > 0 && !bytes.empty(); --damage)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
    net::Frame frame;
    const auto hash = flow_hash(bytes, kSeed);
    if (parse_frame(bytes, {}, local, frame) != DropReason::kNone || frame.kind != net::Frame::kUdp)
      continue;
    ++accepted;
    Packet same = packet.version == 4 ? Packet() : Packet::v6();
    same.source_port = frame.peer.peer_port;
    auto plain = same.build();
    const size_t address_bytes = packet.version == 4 ? 4 : 16;
    for (size_t i = 0; i < address_bytes; ++i)
      plain[(packet.version == 4 ? 26 : 22) + i] = std::byte{frame.peer.peer_address[i]};
    ASSERT_TRUE(hash);
    EXPECT_EQ(*hash, flow_hash(plain, kSeed));
  }
  EXPECT_GT(accepted, 5'000u);
}

}  // namespace
}  // namespace itif::net::test
