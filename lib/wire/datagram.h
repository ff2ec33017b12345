// Parses and builds single datagrams. Pure: bytes in, structs out; safe on any input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/header.h"
#include "wire/ranges.h"

namespace itif::wire {

// Reasons to reject a datagram. Each has its own counter.
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
  kBadField,       // a field or flag that this type does not use is set, or a status says kOk
};
constexpr size_t kNumParseErrors = 10;
// Returns the counter's name: "too_short", "bad_magic", ….
const char* parse_error_name(ParseError error);

struct Datagram {
  Header header;
  std::span<const std::byte> tag;      // 16 bytes, or empty; borrowed
  std::span<const std::byte> payload;  // borrowed
};

// Parses a datagram and checks everything that does not depend on the tenant. `udp_payload` must
// not include link-layer padding. On error `out` is unspecified.
ParseError parse(std::span<const std::byte> udp_payload, Datagram& out) noexcept;

using Key = std::array<std::byte, 16>;

// Computes the tag of an unsealed datagram: SipHash-2-4 with a 128-bit output over the header and,
// if tag_covers_payload(), the payload. REQUIRES: header_bytes and payload_bytes of `header` have
// their final values. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012;
// libsodium's siphashx24.
std::array<std::byte, kTagBytes> compute_tag(const Key& key, const Header& header,
                                             std::span<const std::byte> payload) noexcept;

// Returns true if the tag depends on the payload: always, except for pieces of messages under
// Auth::kHeader. Ranges of resends and texts of statuses are thus always covered.
constexpr bool tag_covers_payload(Auth auth, Type type) noexcept {
  return auth != Auth::kHeader || (type != Type::kRequest && type != Type::kResponse);
}

// Compares in constant time. Returns false if `received` is not kTagBytes long.
bool same_tag(const std::array<std::byte, kTagBytes>& expected,
              std::span<const std::byte> received) noexcept;

// Compares the tag in constant time. Returns false if header.auth is kNone or kSealed.
bool verify_tag(const Key& key, const Datagram& datagram) noexcept;

// Verifies a datagram, and decrypts the payload of a sealed one in place. Returns false if the tag
// is wrong or header.auth is kNone; the payload of a sealed datagram is then zeroed, and any other
// unchanged. REQUIRES: for Auth::kSealed the datagram's memory is writable.
bool open(const Key& key, const Datagram& datagram) noexcept;

// Returns the header of a reply of `type` to the datagram with header `to`. Copies tenant, session
// and request; also authentication and key epoch, except for pong and token. The caller fills in
// the other fields, which are 0.
Header reply_header(const Header& to, Type type) noexcept;

// Writes header, tag (if header.auth requires one) and payload to `out`. Sets header.header_bytes,
// header.payload_bytes and, for types of one datagram, header.total_bytes. Returns the bytes
// written; 0 if `out` is too small or the payload exceeds kMaxFragmentBytes.
size_t build(const Header& header, std::span<const std::byte> payload, const Key& key,
             std::span<std::byte> out) noexcept;

// Like build(), for a payload that is already in place after the header (in a packet buffer).
// `fields`: the header, not in `datagram`. Writes header and tag to the first
// header_size(fields.auth) bytes of `datagram`; the rest is the payload, which Auth::kSealed
// encrypts in place. Returns false if `datagram` is too small or the payload exceeds
// kMaxFragmentBytes.
bool seal(const Header& fields, const Key& key, std::span<std::byte> datagram) noexcept;

// Encrypts a payload in place and returns its tag. The nonce consists of fields of the header, so
// `header` must not be sealed twice with different payloads; see Header::sequence. REQUIRES:
// as compute_tag(). Source: XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), by aead.h.
std::array<std::byte, kTagBytes> encrypt(const Key& key, const Header& header,
                                         std::span<std::byte> payload) noexcept;

// Bytes before the payload: 66 or 82.
constexpr size_t header_size(Auth auth) noexcept {
  return kHeaderBytes + (auth == Auth::kNone ? 0 : kTagBytes);
}

// The input of an address token, which proves that a client receives at its address. `receiver` is
// the part of the server that accepts the token: it knows the sequence numbers that it has accepted
// with the token.
struct TokenInput {
  std::span<const std::byte> address;  // 4 or 16 bytes, in network order
  uint16_t port = 0;                   // in host order
  uint32_t session = 0;
  uint16_t receiver = 0;
};

// Returns the address token of `period`: a 64-bit cookie, never 0, of the input under the server's
// secret.
uint64_t address_token(const Key& secret, const TokenInput& input, uint64_t period) noexcept;

}  // namespace itif::wire
