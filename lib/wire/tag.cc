// Authentication tags and address tokens.
#include <sodium.h>

#include <cstring>

#include "wire/datagram.h"
#include "wire/siphash.h"

namespace itif::wire {

std::array<std::byte, kTagBytes> compute_tag(const Key& key, const Header& header,
                                             std::span<const std::byte> payload) noexcept {
  const std::span<const std::byte> head(reinterpret_cast<const std::byte*>(&header), kHeaderBytes);
  return siphash128(key, head, header.auth == Auth::kFull ? payload : std::span<const std::byte>{});
}

bool verify_tag(const Key& key, const Datagram& datagram) noexcept {
  if (datagram.tag.size() != kTagBytes || datagram.header.auth == Auth::kNone) return false;
  const auto expected = compute_tag(key, datagram.header, datagram.payload);
  return crypto_verify_16(reinterpret_cast<const unsigned char*>(expected.data()),
                          reinterpret_cast<const unsigned char*>(datagram.tag.data())) == 0;
}

uint32_t address_token(const Key& secret, std::span<const std::byte> address, uint16_t port,
                       uint32_t session, uint64_t period) noexcept {
  // Fixed-width fields, with the address's length: no two inputs share an encoding.
  struct [[gnu::packed]] {
    std::array<std::byte, 16> address{};
    uint64_t period;
    uint32_t session;
    uint16_t port;
    uint16_t address_bytes;
  } input;
  const size_t address_bytes = address.size() < 16 ? address.size() : 16;
  if (address_bytes > 0) std::memcpy(input.address.data(), address.data(), address_bytes);
  input.period = period;
  input.session = session;
  input.port = port;
  input.address_bytes = static_cast<uint16_t>(address_bytes);
  const auto hash = siphash128(secret, std::as_bytes(std::span(&input, 1)), {});
  const auto token = static_cast<uint32_t>(load_bytes(hash.data(), 4));
  return token == 0 ? 1 : token;  // 0 on the wire means "no token"
}

bool address_token_valid(const Key& secret, std::span<const std::byte> address, uint16_t port,
                         uint32_t session, uint64_t period, uint32_t token) noexcept {
  if (token == 0) return false;
  return token == address_token(secret, address, port, session, period) ||
         (period > 0 && token == address_token(secret, address, port, session, period - 1));
}

}  // namespace itif::wire
