// The Internet checksum (RFC 1071) over IPv4 headers, UDP and ICMP. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "net/address.h"

namespace itif::net {

// The folded ones'-complement sum of 16-bit words (network order), an odd last byte padded with 0;
// `sum` chains calls, all but the last of even length. Not complemented.
uint16_t ones_sum(std::span<const std::byte> bytes, uint32_t sum = 0) noexcept;

// The pseudo-header's folded sum. Source: RFC 768; RFC 8200 section 8.1. Symmetric in the
// addresses.
uint16_t pseudo_header_sum(const Endpoint& peer, uint8_t protocol, uint32_t l4_bytes) noexcept;

// The value for the checksum field of `l4` (the field itself must be 0), never 0 for UDP.
uint16_t l4_checksum(const Endpoint& peer, uint8_t protocol,
                     std::span<const std::byte> l4) noexcept;

}  // namespace itif::net
