// Datagrams that a server must survive: each kind breaks one rule of docs/protocol.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/random.h"
#include "options.h"

namespace itif::loadgen {

enum class Damage : uint8_t {
  kShortHeader,   // fewer bytes than a header
  kShortPayload,  // payload_bytes promises more than there is
  kLongPayload,   // bytes behind the payload
  kMagic,
  kVersion,
  kType,        // unknown, or one that only a server sends
  kAuth,        // unknown, or header_bytes contradicts it
  kKind,        // unknown payload or result kind
  kStrayField,  // a field or flag that a request does not use
  kOffsetPastEnd,
  kOffsetMisaligned,
  kTotalTooLarge,  // above 16 MiB
  kFragmentSize,   // no multiple of 4, too small or too large
  kTag,            // one bit of the tag
  kUnknownTenant,
  kEpoch,            // a key's epoch that never was
  kHalfSent,         // properly made, one piece of several: the others never come
  kChangedGeometry,  // properly made, another total than the request's first piece
  kNoise,            // random bytes
};
constexpr size_t kNumDamages = 19;
const char* damage_name(Damage damage);

// Room that damaged() needs.
constexpr size_t kMaxDamagedBytes = 2048;

// Writes a request datagram of `target` with this damage. `payload` is cut to what fits. What is broken
// apart, the datagram is right: tagged with the target's key if it has one. Returns its bytes, at least
// 1. REQUIRES: out.size() ≥ kMaxDamagedBytes.
size_t damaged(Damage damage, const Target& target, uint32_t session, uint64_t request_id,
               wire::PayloadKind payload_kind, std::span<const std::byte> payload, Random& random,
               std::span<std::byte> out) noexcept;

}  // namespace itif::loadgen
