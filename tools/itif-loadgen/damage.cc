#include "damage.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "wire/datagram.h"
#include "wire/geometry.h"

namespace itif::loadgen {
namespace {

constexpr unsigned kNumResultKinds = std::size(wire::kResultKinds);
constexpr uint32_t kPieceBytes = 256;  // of datagrams that claim to be a piece of a larger request

// Overwrites a field of a datagram after it was tagged.
template <class Value>
void poke(std::span<std::byte> datagram, size_t offset, Value value) noexcept {
  std::memcpy(datagram.data() + offset, &value, sizeof(value));
}

}  // namespace

const char* damage_name(Damage damage) {
  switch (damage) {
    case Damage::kShortHeader: return "short_header";
    case Damage::kShortPayload: return "short_payload";
    case Damage::kLongPayload: return "long_payload";
    case Damage::kMagic: return "magic";
    case Damage::kVersion: return "version";
    case Damage::kType: return "type";
    case Damage::kAuth: return "auth";
    case Damage::kKind: return "kind";
    case Damage::kStrayField: return "stray_field";
    case Damage::kOffsetPastEnd: return "offset_past_end";
    case Damage::kOffsetMisaligned: return "offset_misaligned";
    case Damage::kTotalTooLarge: return "total_too_large";
    case Damage::kFragmentSize: return "fragment_size";
    case Damage::kTag: return "tag";
    case Damage::kToken: return "token";
    case Damage::kReplay: return "replay";
    case Damage::kUnknownTenant: return "unknown_tenant";
    case Damage::kEpoch: return "epoch";
    case Damage::kHalfSent: return "half_sent";
    case Damage::kChangedGeometry: return "changed_geometry";
    case Damage::kNoise: return "noise";
  }
  return "?";
}

size_t damaged(Damage damage, const Target& target, const Origin& origin, uint64_t request_id,
               wire::PayloadKind payload_kind, std::span<const std::byte> payload, Random& random,
               std::span<std::byte> out) noexcept {
  payload = payload.first(std::min<size_t>(payload.size(), kPieceBytes));
  const auto whole = static_cast<uint32_t>(payload.size());
  wire::Header header;
  header.type = wire::Type::kRequest;
  header.auth = target.credential.auth;
  header.tenant_id = target.credential.tenant_id;
  header.session = origin.session;
  header.token = origin.token;
  header.sequence = origin.sequence;
  header.request_id = request_id;
  header.total_bytes = whole;
  header.payload_kind = payload_kind;
  header.key_epoch = target.credential.key_epoch;
  header.fragment_bytes = kPieceBytes;
  std::byte filler[kPieceBytes];
  for (std::byte& b : filler) b = static_cast<std::byte>(random.next());

  // Damage before tagging.
  switch (damage) {
    case Damage::kKind:
      if (random.below(2))
        header.payload_kind = static_cast<wire::PayloadKind>(7 + random.below(249));
      else
        header.result_kind =
            static_cast<wire::ResultKind>(kNumResultKinds + random.below(256 - kNumResultKinds));
      break;
    case Damage::kStrayField:
      if (random.below(2))
        header.status = static_cast<wire::StatusCode>(1 + random.below(65535));
      else
        header.flags = static_cast<uint16_t>(1u << (8 + random.below(8)));
      break;
    case Damage::kOffsetPastEnd:
      header.offset =
          (whole / kPieceBytes + 1 + static_cast<uint32_t>(random.below(1000))) * kPieceBytes;
      break;
    case Damage::kOffsetMisaligned:
      header.total_bytes = 100 * kPieceBytes;
      header.offset = kPieceBytes + 4;
      payload = filler;
      break;
    case Damage::kTotalTooLarge:
      header.total_bytes = wire::kMaxTotalBytes + 1 + static_cast<uint32_t>(random.below(1u << 30));
      payload = filler;
      break;
    case Damage::kFragmentSize: {
      constexpr uint16_t kBad[] = {0, 4, 60, 66, 257, 8897, 8900, 65535};
      header.fragment_bytes = kBad[random.below(std::size(kBad))];
      break;
    }
    case Damage::kToken: header.token ^= 1 + random.below(UINT32_MAX); break;
    case Damage::kReplay:
      header.sequence -= 1 + random.below(100);
      // The number may be new to the server, because it has dropped the datagram that had it. So
      // the request is never whole.
      header.total_bytes = 2 * kPieceBytes;
      payload = filler;
      break;
    case Damage::kUnknownTenant: header.tenant_id = ~header.tenant_id; break;
    case Damage::kEpoch:
      header.key_epoch = static_cast<uint16_t>(header.key_epoch + 1000 + random.below(1000));
      break;
    case Damage::kHalfSent:
      header.total_bytes = kPieceBytes * (2 + static_cast<uint32_t>(random.below(60'000)));
      header.offset =
          kPieceBytes * static_cast<uint32_t>(random.below(header.total_bytes / kPieceBytes));
      payload = filler;
      break;
    case Damage::kChangedGeometry:
      // Few different ids, so that pieces of one request contradict each other.
      header.request_id = random.below(8);
      header.total_bytes = kPieceBytes * (2 + static_cast<uint32_t>(random.below(100)));
      header.offset = 0;
      payload = filler;
      break;
    default: break;
  }
  size_t bytes = wire::build(header, payload, target.credential.key, out);

  // Damage after tagging.
  const size_t head_bytes = wire::header_size(header.auth);
  switch (damage) {
    case Damage::kShortHeader: bytes = 1 + random.below(wire::kHeaderBytes - 1); break;
    case Damage::kShortPayload:
      poke<uint16_t>(out, offsetof(wire::Header, payload_bytes),
                     static_cast<uint16_t>(bytes - head_bytes + 1 + random.below(1000)));
      break;
    case Damage::kLongPayload: {
      const size_t more = 1 + random.below(64);
      std::memset(out.data() + bytes, 0x5a, more);
      bytes += more;
      break;
    }
    case Damage::kMagic:
      out[random.below(2)] ^= static_cast<std::byte>(1 + random.below(255));
      break;
    case Damage::kVersion:
      poke<uint8_t>(out, offsetof(wire::Header, version),
                    static_cast<uint8_t>(wire::kVersion + 1 + random.below(255)));
      break;
    case Damage::kType: {
      constexpr uint8_t kTypes[] = {0, 2, 3, 5, 8, 10, 11, 200};
      poke<uint8_t>(out, offsetof(wire::Header, type), kTypes[random.below(std::size(kTypes))]);
      break;
    }
    case Damage::kAuth:
      if (random.below(2))
        poke<uint8_t>(out, offsetof(wire::Header, auth),
                      static_cast<uint8_t>(4 + random.below(252)));
      else
        poke<uint8_t>(out, offsetof(wire::Header, header_bytes),
                      static_cast<uint8_t>(head_bytes + 1 + random.below(20)));
      break;
    case Damage::kTag:
      if (header.auth == wire::Auth::kNone) {
        // The target sends no tag: add one that is made with a wrong key.
        header.auth = wire::Auth::kHeader;
        bytes = wire::build(header, payload, wire::Key{}, out);
      }
      out[wire::kHeaderBytes + random.below(wire::kTagBytes)] ^=
          static_cast<std::byte>(1u << random.below(8));
      break;
    case Damage::kNoise:
      bytes = 1 + random.below(1400);
      for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(random.next());
      break;
    default: break;
  }
  return bytes;
}

}  // namespace itif::loadgen
