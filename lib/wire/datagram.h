// Parses and builds single datagrams. Pure: bytes in, structs out; safe on any input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/header.h"

namespace itif::wire {

// Why a datagram is not one of ours. Each is a counter of its own.
enum class ParseError : uint8_t {
  kNone = 0,
  kTooShort,       // fewer bytes than a header
  kBadMagic,
  kBadVersion,
  kBadType,
  kBadHeaderSize,  // header_bytes contradicts auth, or auth is unknown
  kBadLength,      // payload_bytes contradicts the datagram's length
  kBadKind,        // payload or result kind unknown
  kBadGeometry,    // total, offset, fragment and payload sizes contradict each other or the limits
};
constexpr size_t kNumParseErrors = 9;
const char* parse_error_name(ParseError error);

struct Datagram {
  Header header;
  std::span<const std::byte> tag;      // 16 bytes, or empty; borrowed
  std::span<const std::byte> payload;  // borrowed
};

// Checks everything that can be checked without knowing the tenant. `udp_payload` may be followed by
// link-layer padding only outside the span. On error `out` is unspecified.
ParseError parse(std::span<const std::byte> udp_payload, Datagram& out) noexcept;

using Key = std::array<std::byte, 16>;

// SipHash-2-4 with a 128-bit output over the 50 header bytes and, for Auth::kFull, the payload.
// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; libsodium's siphashx24.
std::array<std::byte, kTagBytes> compute_tag(const Key& key, const Header& header,
                                             std::span<const std::byte> payload) noexcept;

// Constant time. REQUIRES: datagram.header.auth ≠ kNone (then false).
bool verify_tag(const Key& key, const Datagram& datagram) noexcept;

// Writes header, tag (if header.auth asks for one) and payload to `out`; sets header.header_bytes and
// header.payload_bytes. Returns the bytes written, 0 if `out` is too small.
size_t build(Header header, std::span<const std::byte> payload, const Key& key,
             std::span<std::byte> out) noexcept;

// A resend datagram's payload is 1 to 64 of these, ascending.
struct Range {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};
constexpr size_t kMaxRanges = 64;

// The address token: a 32-bit cookie of (address, port, session) under the server's secret, good for
// the current and the previous period. `address` is 4 or 16 bytes, network order; port host order.
uint32_t address_token(const Key& secret, std::span<const std::byte> address, uint16_t port,
                       uint32_t session, uint64_t period) noexcept;

}  // namespace itif::wire
