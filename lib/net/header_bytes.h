// Unaligned big-endian fields, and constants of the Ethernet, IP and UDP headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace itif::net {

inline uint16_t load_be16(const std::byte* at) noexcept {
  return static_cast<uint16_t>(static_cast<unsigned>(at[0]) << 8 | static_cast<unsigned>(at[1]));
}
inline void store_be16(std::byte* at, uint16_t value) noexcept {
  at[0] = static_cast<std::byte>(value >> 8);
  at[1] = static_cast<std::byte>(value);
}
inline uint8_t load_u8(const std::byte* at) noexcept {
  return static_cast<uint8_t>(*at);
}

constexpr uint16_t kEtherIpv4 = 0x0800;
constexpr uint16_t kEtherArp = 0x0806;
constexpr uint16_t kEtherVlan = 0x8100;
constexpr uint16_t kEtherServiceVlan = 0x88a8;
constexpr uint16_t kEtherOldServiceVlan = 0x9100;
constexpr uint16_t kEtherIpv6 = 0x86dd;
constexpr size_t kEthernetBytes = 14;
constexpr size_t kVlanBytes = 4;
constexpr size_t kArpBytes = 28;
constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr size_t kUdpBytes = 8;
constexpr uint8_t kProtocolHopByHop = 0;
constexpr uint8_t kProtocolIcmp = 1;
constexpr uint8_t kProtocolUdp = 17;
constexpr uint8_t kProtocolRouting = 43;
constexpr uint8_t kProtocolFragment = 44;
constexpr uint8_t kProtocolIcmpV6 = 58;
constexpr uint8_t kProtocolDestinationOptions = 60;

}  // namespace itif::net
