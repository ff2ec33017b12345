// Malformed datagrams that a server must survive: each kind breaks one rule of docs/protocol.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/random.h"
#include "options.h"

namespace itif::loadgen {

enum class Damage : uint8_t {
  kShortHeader,   // fewer bytes than a header
  kShortPayload,  // payload_bytes is larger than the payload
  kLongPayload,   // extra bytes after the payload
  kMagic,
  kVersion,
  kType,        // unknown, or sent only by servers
  kAuth,        // unknown, or header_bytes contradicts it
  kKind,        // unknown payload or result kind
  kStrayField,  // a field or flag that a request does not use
  kOffsetPastEnd,
  kOffsetMisaligned,
  kTotalTooLarge,  // above 16 MiB
  kFragmentSize,   // not a multiple of 4, too small or too large
  kTag,            // one bit of the tag is flipped
  kToken,          // an address token that the server never gave
  kReplay,         // a sequence number that was used before
  kUnknownTenant,
  kEpoch,            // a key epoch that was never valid
  kHalfSent,         // valid, but the other pieces of the request are never sent
  kChangedGeometry,  // valid, but total_bytes differs from the request's first piece
  kNoise,            // random bytes
};
constexpr size_t kNumDamages = 21;
const char* damage_name(Damage damage);

// Buffer size that damaged() needs.
constexpr size_t kMaxDamagedBytes = 2048;

// The fields of a datagram that name its sender.
struct Origin {
  uint32_t session = 0;
  uint64_t token = 0;
  uint64_t sequence = 0;
};

// Writes a request datagram of `target` with this damage. Apart from the damage it is valid, and
// tagged if the target has a key. `payload` is truncated to fit. Returns the bytes written, at
// least 1. REQUIRES: out.size() ≥ kMaxDamagedBytes.
size_t damaged(Damage damage, const Target& target, const Origin& origin, uint64_t request_id,
               wire::PayloadKind payload_kind, std::span<const std::byte> payload, Random& random,
               std::span<std::byte> out) noexcept;

}  // namespace itif::loadgen
