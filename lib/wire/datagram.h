// Parses and builds single datagrams. Pure: bytes in, structs out; safe on any input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/header.h"
#include "wire/ranges.h"

namespace itif::wire {

// Why a datagram is not one of ours. Each is a counter of its own.
enum class ParseError : uint8_t {
  kNone = 0,
  kTooShort,  // fewer bytes than a header
  kBadMagic,
  kBadVersion,
  kBadType,
  kBadHeaderSize,  // header_bytes contradicts auth, or auth is unknown
  kBadLength,      // payload_bytes contradicts the datagram's length
  kBadKind,        // payload or result kind unknown
  kBadGeometry,    // total, offset, fragment and payload sizes contradict each other or the limits
  kBadField,       // a field or flag that this type does not use is not zero, or a status says ok
};
constexpr size_t kNumParseErrors = 10;
// "too_short", "bad_magic", …: as counters are named.
const char* parse_error_name(ParseError error);

struct Datagram {
  Header header;
  std::span<const std::byte> tag;      // 16 bytes, or empty; borrowed
  std::span<const std::byte> payload;  // borrowed
};

// Checks everything that can be checked without knowing the tenant. `udp_payload` may be followed
// by link-layer padding only outside the span. On error `out` is unspecified.
ParseError parse(std::span<const std::byte> udp_payload, Datagram& out) noexcept;

using Key = std::array<std::byte, 16>;

// SipHash-2-4 with a 128-bit output over the 50 header bytes and, for Auth::kFull, the payload that
// follows them. REQUIRES: header_bytes and payload_bytes are already those of the datagram.
// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; libsodium's siphashx24.
std::array<std::byte, kTagBytes> compute_tag(const Key& key, const Header& header,
                                             std::span<const std::byte> payload) noexcept;

// Constant time. REQUIRES: datagram.header.auth ≠ kNone (then false).
bool verify_tag(const Key& key, const Datagram& datagram) noexcept;

// The header of an answer of `type` to the datagram with header `to`: names the same tenant,
// session, request, key epoch and authentication (none for pong and token); all else is 0 for the
// caller to fill in.
Header reply_header(const Header& to, Type type) noexcept;

// Writes header, tag (if header.auth asks for one) and payload to `out`; sets header.header_bytes,
// header.payload_bytes and, in types of one datagram, header.total_bytes. Returns the bytes
// written, 0 if `out` is too small or the payload longer than any datagram's.
size_t build(Header header, std::span<const std::byte> payload, const Key& key,
             std::span<std::byte> out) noexcept;

// As build(), for a payload that already stands behind the header (a packet buffer written in
// place): writes header and tag to the first header_size(header.auth) bytes of `datagram`, and
// takes the rest as the payload.
bool seal(Header header, const Key& key, std::span<std::byte> datagram) noexcept;

// Bytes before the payload: 50 or 66.
constexpr size_t header_size(Auth auth) noexcept {
  return kHeaderBytes + (auth == Auth::kNone ? 0 : kTagBytes);
}

// The address token: a 32-bit cookie, never 0, of (address, port, session) under the server's
// secret, good for the current and the previous period. `address` is 4 or 16 bytes, network order;
// port host order.
uint32_t address_token(const Key& secret, std::span<const std::byte> address, uint16_t port,
                       uint32_t session, uint64_t period) noexcept;

// True if `token` is that of `period` or the one before.
bool address_token_valid(const Key& secret, std::span<const std::byte> address, uint16_t port,
                         uint32_t session, uint64_t period, uint32_t token) noexcept;

}  // namespace itif::wire
