#include "net/flow_hash.h"

#include "net/frame.h"
#include "net/header_bytes.h"
#include "net/message_key.h"

namespace itif::net {
namespace {

uint64_t load_word(const std::byte* at) noexcept {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

bool is_vlan(uint16_t ether_type) noexcept {
  return ether_type == kEtherVlan || ether_type == kEtherServiceVlan ||
         ether_type == kEtherOldServiceVlan;
}

uint32_t hash_ipv4(const std::byte* source, uint16_t port, uint64_t seed) noexcept {
  uint32_t address;
  std::memcpy(&address, source, sizeof address);
  return static_cast<uint32_t>(hash_key({address, port, 4}, seed) >> 32);
}

uint32_t hash_ipv6(const std::byte* source, uint16_t port, uint64_t seed) noexcept {
  const uint64_t half = hash_key({6, port, load_word(source)}, seed);
  return static_cast<uint32_t>(hash_key({6, port, load_word(source + 8)}, half) >> 32);
}

// Returns the offset of the UDP header behind extension headers that frame.h skips; 0: none.
size_t skip_extensions(std::span<const std::byte> frame, size_t at, uint8_t next) noexcept {
  for (int skipped = 0; next != kProtocolUdp; ++skipped) {
    if (next != kProtocolHopByHop && next != kProtocolDestinationOptions) return 0;
    if (skipped == kMaxExtensionHeaders || frame.size() < at + 8) return 0;
    next = load_u8(&frame[at]);
    at += (size_t{load_u8(&frame[at + 1])} + 1) * 8;
  }
  return at;
}

}  // namespace

std::optional<uint32_t> flow_hash(std::span<const std::byte> frame, uint64_t seed) noexcept {
  size_t at = kEthernetBytes;
  if (frame.size() < at + kIpv4Bytes + kUdpBytes) return std::nullopt;
  uint16_t ether_type = load_be16(&frame[at - 2]);
  for (int tags = 0; is_vlan(ether_type) && tags < 2; ++tags) {
    at += kVlanBytes;
    ether_type = load_be16(&frame[at - 2]);
  }
  const std::byte* ip = &frame[at];
  if (ether_type == kEtherIpv4) {
    const size_t udp = at + (load_u8(ip) & 0xf) * size_t{4};
    if (frame.size() < at + kIpv4Bytes || frame.size() < udp + kUdpBytes ||
        load_u8(ip + 9) != kProtocolUdp || (load_be16(ip + 6) & 0x3fff) != 0)
      return std::nullopt;
    return hash_ipv4(ip + 12, load_be16(&frame[udp]), seed);
  }
  if (ether_type != kEtherIpv6 || frame.size() < at + kIpv6Bytes + kUdpBytes) return std::nullopt;
  const size_t udp = skip_extensions(frame, at + kIpv6Bytes, load_u8(ip + 6));
  if (udp == 0 || frame.size() < udp + kUdpBytes) return std::nullopt;
  return hash_ipv6(ip + 8, load_be16(&frame[udp]), seed);
}

}  // namespace itif::net
