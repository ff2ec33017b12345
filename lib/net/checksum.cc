#include "net/checksum.h"

#include <bit>
#include <cstring>

namespace itif::net {
namespace {

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
  // Both halves of each word have an accumulator of their own, so that no carry is lost.
  for (uint64_t high = 0; left >= 32;) {
    for (; left >= 32; data += 32, left -= 32) {
      uint64_t words[4];
      std::memcpy(words, data, sizeof words);
      for (const uint64_t word : words) {
        total += word & 0xffffffff;
        high += word >> 32;
      }
    }
    total += high;
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

uint16_t pseudo_header_sum(const Endpoint& peer, uint8_t protocol, uint32_t l4_bytes) noexcept {
  const size_t address_bytes = peer.ip_version == 4 ? 4 : 16;
  const auto peer_bytes = std::as_bytes(std::span(peer.peer_address)).first(address_bytes);
  const auto our_bytes = std::as_bytes(std::span(peer.our_address)).first(address_bytes);
  const uint32_t length_sum = (l4_bytes >> 16) + (l4_bytes & 0xffff) + protocol;
  return ones_sum(our_bytes, ones_sum(peer_bytes, length_sum));
}

uint16_t l4_checksum(const Endpoint& peer, uint8_t protocol,
                     std::span<const std::byte> l4) noexcept {
  const uint32_t pseudo = pseudo_header_sum(peer, protocol, static_cast<uint32_t>(l4.size()));
  const auto checksum = static_cast<uint16_t>(~ones_sum(l4, pseudo));
  return checksum == 0 && protocol == 17 ? 0xffff : checksum;  // UDP's 0 means "none"
}

}  // namespace itif::net
