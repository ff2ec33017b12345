// A frame with a datagram from the tests' client to the worker: Ethernet, IPv4, UDP.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "net/address.h"

namespace itif::pipeline::test {

inline constexpr net::MacAddress kClientMac = {2, 0, 0, 0, 0, 9};
inline constexpr uint8_t kClientIp[4] = {198, 18, 0, 2};
inline constexpr uint8_t kOurIp[4] = {198, 18, 0, 1};
inline constexpr uint16_t kClientPort = 40000;
inline constexpr size_t kFrameHeaders = 14 + 20 + 8;

inline std::vector<std::byte> ipv4_frame(const std::vector<std::byte>& datagram,
                                         const net::MacAddress& our_mac) {
  const auto put16 = [](std::byte* at, unsigned value) {
    at[0] = static_cast<std::byte>(value >> 8);
    at[1] = static_cast<std::byte>(value);
  };
  std::vector<std::byte> frame(kFrameHeaders + datagram.size());
  std::memcpy(frame.data(), our_mac.data(), 6);
  std::memcpy(frame.data() + 6, kClientMac.data(), 6);
  put16(frame.data() + 12, 0x0800);
  std::byte* ip = frame.data() + 14;
  ip[0] = std::byte{0x45};
  put16(ip + 2, static_cast<unsigned>(20 + 8 + datagram.size()));
  ip[6] = std::byte{0x40};
  ip[8] = std::byte{64};
  ip[9] = std::byte{17};
  std::memcpy(ip + 12, kClientIp, 4);
  std::memcpy(ip + 16, kOurIp, 4);
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2)
    sum += std::to_integer<uint32_t>(ip[i]) << 8 | std::to_integer<uint32_t>(ip[i + 1]);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  put16(ip + 10, ~sum & 0xffff);
  put16(ip + 20, kClientPort);
  put16(ip + 22, 9009);
  put16(ip + 24, static_cast<unsigned>(8 + datagram.size()));  // UDP checksum 0: none
  std::copy(datagram.begin(), datagram.end(), frame.begin() + kFrameHeaders);
  return frame;
}

}  // namespace itif::pipeline::test
