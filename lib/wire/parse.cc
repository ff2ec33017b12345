// Parses datagrams in one pass of cheap checks over the header, without allocation. Only a failed
// datagram is checked again to find the error to report.
#include <array>
#include <cstring>

#include "wire/datagram.h"

namespace itif::wire {
namespace {

// The size rules of a type.
enum class Shape : uint8_t {
  kPiece,   // request, response: a piece of a message
  kRanges,  // resend: the geometry of the message it refers to, 1 … 64 ranges as payload
  kSingle,  // one datagram: total_bytes = payload_bytes ≤ max_payload_bytes
};

constexpr size_t kHeaderWords = 9;
// The header's bytes 0 … 63, and its last eight.
using HeaderWords = std::array<uint64_t, kHeaderWords>;
constexpr size_t kLastWord = kHeaderBytes - 8;

struct TypeRule {
  HeaderWords must_be_zero{};
  Shape shape = Shape::kSingle;
  bool known = false;
  uint16_t max_payload_bytes = 0;
};

constexpr void set_bytes(HeaderWords& words, size_t offset, size_t bytes) {
  constexpr uint64_t kByte = 0xff;
  for (size_t i = offset; i < offset + bytes; ++i) {
    if (i < 64) words[i / 8] |= kByte << (i % 8 * 8);
    if (i >= kLastWord) words.back() |= kByte << ((i - kLastWord) * 8);
  }
}

// Fields that not every type uses.
enum Field : unsigned {
  kAuth = 1u << 0,
  kTotal = 1u << 1,
  kOffset = 1u << 2,
  kBudget = 1u << 3,
  kPayload = 1u << 4,
  kPayloadKind = 1u << 5,
  kResultKind = 1u << 6,
  kEpoch = 1u << 7,
  kStatus = 1u << 8,
  kFragment = 1u << 9,
  kAux = 1u << 10,
  kSequence = 1u << 11,
  kAddressToken = 1u << 12,
};

constexpr TypeRule rule(Shape shape, unsigned used, unsigned flags, uint16_t max_payload_bytes) {
  TypeRule rule{.shape = shape, .known = true, .max_payload_bytes = max_payload_bytes};
  auto& zero = rule.must_be_zero;
  const auto unused = [&](Field field, size_t offset, size_t bytes) {
    if (!(used & field)) set_bytes(zero, offset, bytes);
  };
  unused(kAuth, offsetof(Header, auth), 1);
  unused(kTotal, offsetof(Header, total_bytes), 4);
  unused(kOffset, offsetof(Header, offset), 4);
  unused(kBudget, offsetof(Header, budget_us), 4);
  unused(kPayload, offsetof(Header, payload_bytes), 2);
  unused(kPayloadKind, offsetof(Header, payload_kind), 1);
  unused(kResultKind, offsetof(Header, result_kind), 1);
  unused(kEpoch, offsetof(Header, key_epoch), 2);
  unused(kStatus, offsetof(Header, status), 2);
  unused(kFragment, offsetof(Header, fragment_bytes), 2);
  unused(kAux, offsetof(Header, aux), 4);
  unused(kSequence, offsetof(Header, sequence), 8);
  unused(kAddressToken, offsetof(Header, token), 8);
  static_assert(offsetof(Header, flags) / 8 == (offsetof(Header, flags) + 1) / 8);
  zero[offsetof(Header, flags) / 8] |= static_cast<uint64_t>(0xffff & ~flags)
                                       << (offsetof(Header, flags) % 8 * 8);
  return rule;
}

constexpr size_t kNumRules = 16;
constexpr std::array<TypeRule, kNumRules> kRules = [] {
  std::array<TypeRule, kNumRules> rules{};
  const auto set = [&](Type type, TypeRule r) { rules[static_cast<size_t>(type)] = r; };
  constexpr unsigned kProtected = kAuth | kEpoch | kSequence;
  constexpr unsigned kMessage = kProtected | kTotal | kPayload | kFragment;
  set(Type::kRequest,
      rule(Shape::kPiece, kMessage | kOffset | kBudget | kPayloadKind | kResultKind | kAddressToken,
           kFlagNoCache | kFlagSegments | kFlagRetry | kFlagTruncate | kFlagModelVersion,
           kMaxFragmentBytes));
  set(Type::kResponse,
      rule(Shape::kPiece,
           kMessage | kOffset | kBudget | kResultKind | kStatus | kAux | kAddressToken,
           kFlagModelVersion, kMaxFragmentBytes));
  set(Type::kResend,
      rule(Shape::kRanges, kMessage | kAddressToken, kFlagOfResponse, kMaxRanges * sizeof(Range)));
  set(Type::kStatus,
      rule(Shape::kSingle, kProtected | kTotal | kPayload | kStatus | kAux | kAddressToken, 0,
           kMaxDetailBytes));
  set(Type::kBusy, rule(Shape::kSingle, kProtected | kBudget | kAux, 0, 0));
  set(Type::kAck, rule(Shape::kSingle, kProtected | kAddressToken, 0, 0));
  set(Type::kHello, rule(Shape::kSingle, 0, 0, 0));
  set(Type::kToken, rule(Shape::kSingle, kBudget | kAddressToken, 0, 0));
  set(Type::kPing, rule(Shape::kSingle, kTotal | kPayload, 0, kMaxFragmentBytes));
  set(Type::kPong, rule(Shape::kSingle, kTotal | kPayload, 0, kMaxFragmentBytes));
  return rules;
}();

constexpr unsigned kMaxAuth = static_cast<unsigned>(Auth::kSealed);
constexpr unsigned kMaxPayloadKind = static_cast<unsigned>(PayloadKind::kRaw);
constexpr unsigned kMaxResultKind = std::size(kResultKinds) - 1;

bool bad_fragment_size(uint32_t fragment_bytes) noexcept {
  // Unsigned: a value below the minimum wraps around to one above the maximum.
  return fragment_bytes - kMinFragmentBytes > kMaxFragmentBytes - kMinFragmentBytes ||
         fragment_bytes % 4 != 0;
}

bool bad_geometry(const Header& h, const TypeRule& rule) noexcept {
  const uint32_t total = h.total_bytes;
  const uint32_t offset = h.offset;
  const uint32_t payload = h.payload_bytes;
  const uint32_t fragment = h.fragment_bytes;
  switch (rule.shape) {
    case Shape::kPiece: {
      if (bad_fragment_size(fragment) || total > kMaxTotalBytes || offset > total) return true;
      if (offset != 0 && (offset == total || offset % fragment != 0)) return true;
      const uint32_t rest = total - offset;
      return payload != (rest < fragment ? rest : fragment);
    }
    case Shape::kRanges:
      return bad_fragment_size(fragment) || total - 1 >= kMaxTotalBytes ||
             payload - 1 >= rule.max_payload_bytes || payload % sizeof(Range) != 0;
    case Shape::kSingle: return total != payload || payload > rule.max_payload_bytes;
  }
  return true;
}

// Loads whole words only: a word in two parts would wait for both stores.
HeaderWords load_header(const std::byte* from) noexcept {
  HeaderWords words;
  std::memcpy(words.data(), from, 64);
  std::memcpy(&words.back(), from + kLastWord, 8);
  return words;
}

bool bad_fields(const HeaderWords& words, const TypeRule& rule) noexcept {
  uint64_t set = 0;
#pragma GCC unroll 9
  for (size_t i = 0; i < kHeaderWords; ++i) set |= words[i] & rule.must_be_zero[i];
  return set != 0;
}

// In a response, `status` is the model's version, 0 without kFlagModelVersion. In a status, it is
// never kOk.
bool bad_status(const Header& h) noexcept {
  const bool is_response = h.type == Type::kResponse;
  const bool has_version = (h.flags & kFlagModelVersion) != 0;
  const bool is_zero = h.status == StatusCode::kOk;
  return static_cast<bool>((static_cast<unsigned>(is_response) & !has_version & !is_zero) |
                           (static_cast<unsigned>(h.type == Type::kStatus) & is_zero));
}

// Returns the first failed check, in field order. REQUIRES: a check has failed.
[[gnu::cold]] ParseError first_error(const Header& h, const HeaderWords& words, size_t bytes) {
  if (h.magic != kMagic) return ParseError::kBadMagic;
  if (h.version != kVersion) return ParseError::kBadVersion;
  const auto type = static_cast<size_t>(h.type);
  if (type >= kNumRules || !kRules[type].known) return ParseError::kBadType;
  const TypeRule& rule = kRules[type];
  if (static_cast<unsigned>(h.auth) > kMaxAuth || h.header_bytes != header_size(h.auth))
    return ParseError::kBadHeaderSize;
  if (bytes != static_cast<size_t>(h.header_bytes) + h.payload_bytes) return ParseError::kBadLength;
  if (static_cast<unsigned>(h.payload_kind) > kMaxPayloadKind ||
      static_cast<unsigned>(h.result_kind) > kMaxResultKind)
    return ParseError::kBadKind;
  if (bad_fields(words, rule) || bad_status(h)) return ParseError::kBadField;
  return ParseError::kBadGeometry;
}

}  // namespace

ParseError parse(std::span<const std::byte> udp_payload, Datagram& out) noexcept {
  if (udp_payload.size() < kHeaderBytes) return ParseError::kTooShort;
  const HeaderWords words = load_header(udp_payload.data());
  std::memcpy(&out.header, udp_payload.data(), kHeaderBytes);
  const Header& h = out.header;

  const TypeRule& rule = kRules[static_cast<size_t>(h.type) % kNumRules];
  // Branch-free, because almost all datagrams are valid.
  unsigned bad = h.magic != kMagic;
  bad |= h.version != kVersion;
  bad |= static_cast<size_t>(h.type) >= kNumRules;
  bad |= !rule.known;
  bad |= static_cast<unsigned>(h.auth) > kMaxAuth;
  bad |= h.header_bytes != header_size(h.auth);
  bad |= udp_payload.size() != static_cast<size_t>(h.header_bytes) + h.payload_bytes;
  bad |= static_cast<unsigned>(h.payload_kind) > kMaxPayloadKind;
  bad |= static_cast<unsigned>(h.result_kind) > kMaxResultKind;
  bad |= bad_fields(words, rule);
  bad |= bad_status(h);
  if (bad != 0 || bad_geometry(h, rule)) [[unlikely]]
    return first_error(h, words, udp_payload.size());

  out.tag = udp_payload.subspan(kHeaderBytes, h.header_bytes - kHeaderBytes);
  out.payload = udp_payload.subspan(h.header_bytes);
  return ParseError::kNone;
}

}  // namespace itif::wire
