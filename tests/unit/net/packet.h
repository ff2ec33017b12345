// Builds test frames by hand, with separate checksum code: it shares no code with the code under
// test.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "test_eal.h"

namespace itif::net::test {

inline const MacAddress kOurMac = {0x02, 0x00, 0x00, 0x00, 0x00, 0x01};
inline const MacAddress kPeerMac = {0x02, 0x00, 0x00, 0x00, 0x00, 0x99};
constexpr uint16_t kOurPort = 9009;
constexpr uint16_t kPeerPort = 40000;

// Options of IPv6 extension headers, for Packet::extensions. Two tables of frames use them.
inline const Frame kPadding6 = bytes_of({1, 4, 0, 0, 0, 0});        // PadN
inline const Frame kRouterAlert = bytes_of({5, 2, 0, 0, 1, 0});     // then PadN(0)
inline const Frame kUnknownSkip = bytes_of({0x1e, 4, 9, 9, 9, 9});  // 00: skip

struct Packet {
  MacAddress destination = kOurMac;
  MacAddress source = kPeerMac;
  std::vector<std::pair<uint16_t, uint16_t>> vlans;  // TPID, TCI
  int version = 4;
  std::string source_ip = "198.18.0.2";
  std::string destination_ip = "198.18.0.1";
  Frame ipv4_options;                             // a multiple of 4 bytes
  std::vector<std::pair<int, Frame>> extensions;  // IPv6: header type, bytes 2 and up
  int protocol = 17;
  uint16_t source_port = kPeerPort;
  uint16_t destination_port = kOurPort;
  uint16_t flags_and_fragment = 0x4000;
  int hop_limit = 64;
  int checksum = -1;                          // the UDP checksum; -1: compute it
  Frame payload = bytes_of({1, 2, 3, 4, 5});  // of UDP, or a whole message of another protocol
  size_t padding = 0;                         // bytes after the IP packet, as Ethernet pads

  static Packet v6() {
    Packet packet;
    packet.version = 6;
    packet.source_ip = "fd00::2";
    packet.destination_ip = "fd00::1";
    return packet;
  }
  Frame build() const;
};

// RFC 1071, word by word.
uint16_t plain_checksum(std::span<const std::byte> bytes, uint64_t sum = 0);
// Fills bytes 2 and 3 of an ICMPv6 message.
void finish_icmp_v6(Frame& message, const std::string& source, const std::string& destination);
void put16(Frame& frame, size_t at, uint16_t value);
Frame ip_bytes(int version, const std::string& text);
// Recomputes the IPv4 header checksum of a frame whose IP header starts at `ip`.
void fix_ipv4_checksum(Frame& frame, size_t ip);

// 198.18.0.1, fd00::1 and fe80::ff:fe00:1 on kOurMac, port 9009.
LocalAddresses local_addresses(uint16_t vlan = 0);

}  // namespace itif::net::test
