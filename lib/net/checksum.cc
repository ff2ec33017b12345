#include "net/checksum.h"

#include <bit>
#include <cstring>

namespace itif::net {
namespace {

using Vector = uint64_t __attribute__((vector_size(16)));

uint16_t fold(uint64_t sum) noexcept {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>((sum & 0xffff) + (sum >> 16));
}

}  // namespace

// Summing in the machine's byte order and swapping once at the end gives the same result (RFC 1071,
// section 2 B); 32-bit words in a 64-bit accumulator cannot overflow below 16 GiB.
uint16_t ones_sum(std::span<const std::byte> bytes, uint32_t sum) noexcept {
  static_assert(std::endian::native == std::endian::little);
  const std::byte* data = bytes.data();
  size_t left = bytes.size();
  uint64_t total = 0;
  if (left >= sizeof(Vector)) {
    // Both halves of each 64-bit lane have an accumulator of their own, so that no carry is lost.
    Vector low{}, high{};
    for (; left >= sizeof(Vector); data += sizeof(Vector), left -= sizeof(Vector)) {
      Vector words;
      std::memcpy(&words, data, sizeof words);
      low += words & 0xffffffff;
      high += words >> 32;
    }
    low += high;
    total = low[0] + low[1];
  }
  for (; left >= 4; data += 4, left -= 4) {
    uint32_t word;
    std::memcpy(&word, data, 4);
    total += word;
  }
  if (left > 0) {
    uint32_t word = 0;
    std::memcpy(&word, data, left);
    total += word;
  }
  return fold(static_cast<uint64_t>(__builtin_bswap16(fold(total))) + sum);
}

uint16_t address_sum(const Endpoint& peer, uint32_t sum) noexcept {
  const auto word = [](const std::array<uint8_t, 16>& address, size_t at) -> uint64_t {
    uint32_t value;
    std::memcpy(&value, &address[at], sizeof value);
    return value;
  };
  uint64_t total = word(peer.peer_address, 0) + word(peer.our_address, 0);
  for (size_t at = 4; peer.ip_version == 6 && at < 16; at += 4)
    total += word(peer.peer_address, at) + word(peer.our_address, at);
  return fold(static_cast<uint64_t>(__builtin_bswap16(fold(total))) + sum);
}

uint16_t pseudo_header_sum(const Endpoint& peer, uint8_t protocol, uint32_t l4_bytes) noexcept {
  return address_sum(peer, (l4_bytes >> 16) + (l4_bytes & 0xffff) + protocol);
}

uint16_t l4_checksum(const Endpoint& peer, uint8_t protocol,
                     std::span<const std::byte> l4) noexcept {
  const uint32_t pseudo = pseudo_header_sum(peer, protocol, static_cast<uint32_t>(l4.size()));
  const auto checksum = static_cast<uint16_t>(~ones_sum(l4, pseudo));
  return checksum == 0 && protocol == 17 ? 0xffff : checksum;  // UDP's 0 means "none"
}

}  // namespace itif::net
