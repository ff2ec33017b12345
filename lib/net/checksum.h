// The Internet checksum (RFC 1071) over IPv4 headers, UDP and ICMP. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "net/address.h"

namespace itif::net {

// Returns the folded ones'-complement sum of 16-bit words in network order, not complemented. An
// odd last byte is padded with 0. `sum`: the sum of preceding words, folded or not.
uint16_t ones_sum(std::span<const std::byte> bytes, uint32_t sum = 0) noexcept;

// Returns the folded sum of both addresses and `sum`.
uint16_t address_sum(const Endpoint& peer, uint32_t sum) noexcept;

// Returns the pseudo-header's folded sum, which is symmetric in the two addresses. Source: RFC 768;
// RFC 8200 section 8.1.
uint16_t pseudo_header_sum(const Endpoint& peer, uint8_t protocol, uint32_t l4_bytes) noexcept;

// Returns the checksum of `l4`, never 0 for UDP. REQUIRES: the checksum field of `l4` is 0.
uint16_t l4_checksum(const Endpoint& peer, uint8_t protocol,
                     std::span<const std::byte> l4) noexcept;

}  // namespace itif::net
