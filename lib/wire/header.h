// The datagram header of wire format version 2. docs/protocol.md describes the format in full.
//
//   datagram = header [tag] payload            inside one UDP datagram; little-endian throughout
//   header   = 66 bytes, see struct Header
//   tag      = 16 bytes, present if auth ≠ 0
//   payload  = payload_bytes bytes, encrypted if auth = sealed
//
// Alignment: a datagram starts at byte 42 (IPv4) or 62 (IPv6) of its Ethernet frame, plus 4 bytes
// per VLAN tag. As 66 ≡ 2 (mod 4), the payload is 4-byte aligned in the frame.
//
// Geometry: a message (request or response) of total_bytes is cut into pieces of fragment_bytes;
// only the last piece may be shorter. Every piece carries total_bytes, fragment_bytes and its
// offset, so pieces may arrive in any order and the offset alone identifies a duplicate. Pieces
// never overlap: an offset that is not a multiple of fragment_bytes is malformed. A resend carries
// total_bytes and fragment_bytes of the message that it refers to. Each of the other types is a
// single datagram.
//
// Pure data and functions: no I/O, no allocation, never trusts a length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace itif::wire {

constexpr uint16_t kMagic = 0x4649;  // "IF" on the wire
constexpr uint8_t kVersion = 2;
constexpr uint32_t kHeaderBytes = 66;
constexpr uint32_t kTagBytes = 16;
constexpr uint16_t kDefaultPort = 9009;
// Payload of a piece: a multiple of 4, small enough that no frame needs IP fragmentation.
constexpr uint32_t kMinFragmentBytes = 64;
constexpr uint32_t kMaxFragmentBytes = 8896;  // 9,018-byte jumbo frame, IPv6, two VLAN tags, tag
// 1,500-byte MTU − IPv6 40 − UDP 8 − header 66 − tag 16, rounded down to a multiple of 4.
constexpr uint32_t kDefaultFragmentBytes = 1368;
constexpr uint32_t kMaxTotalBytes = 16u << 20;
constexpr uint32_t kMaxDetailBytes = 512;  // a status's text
constexpr size_t kMaxRanges = 64;          // in a resend

enum class Type : uint8_t {
  kRequest = 1,   // client → server: a piece of a request
  kResponse = 2,  // server → client: a piece of its result
  kStatus = 3,    // server → client: the request ends without a result; says why
  kResend = 4,    // both directions: ranges of a message that this datagram's sender is missing
  kBusy = 5,      // server → client: the request is complete and queued; keep waiting
  kAck = 6,       // client → server: the response is complete; the server may drop it
  kHello = 7,     // client → server: requests an address token
  kToken = 8,     // server → client: the token for this address
  kPing = 9,      // client → server: liveness check; the payload is echoed
  kPong = 10,     // server → client: echo of a ping
};

// The protection of a datagram. Each includes the one before.
enum class Auth : uint8_t {
  kNone = 0,
  kHeader = 1,  // a tag over the header; also over the payload if that is no piece of a message
  kFull = 2,    // a tag over header and payload
  kSealed = 3,  // the payload is encrypted, header and payload are authenticated
};

enum class PayloadKind : uint8_t {
  kNone = 0,
  kTokensU16 = 1,
  kTokensU32 = 2,
  kText = 3,      // UTF-8; U+0000 separates the two texts of a pair
  kImageU8 = 4,   // u16 height, u16 width, u16 channels, u16 0, then HWC bytes
  kImageF32 = 5,  // same prefix, then HWC f32
  kRaw = 6,
};

enum class ResultKind : uint8_t {
  kDefault = 0,      // the default of the tenant's head
  kHidden = 1,       // f32 [num_tokens, hidden]
  kPooled = 2,       // f32 [hidden]
  kEmbedding = 3,    // f32 [hidden]
  kLogits = 4,       // f32 [num_labels]
  kTokenLogits = 5,  // f32 [num_tokens, num_labels]
  kClasses = 6,      // best first: {u32 index, f32 probability, u32 name_bytes, name padded to 4}
  kTokens = 7,       // u32 [num_generated]: generated token ids
  kText = 8,         // UTF-8: generated text; may be empty
};

inline constexpr ResultKind kResultKinds[] = {
    ResultKind::kDefault,   ResultKind::kHidden, ResultKind::kPooled,
    ResultKind::kEmbedding, ResultKind::kLogits, ResultKind::kTokenLogits,
    ResultKind::kClasses,   ResultKind::kTokens, ResultKind::kText};

// header.flags
enum Flag : uint16_t {
  kFlagNoCache = 1u << 0,   // request: do not keep the response for retransmission
  kFlagSegments = 1u << 1,  // request, token ids: token type 1 after the first separator
  kFlagRetry = 1u << 2,     // request: a repeat (for statistics only)
  // resend: the client requests ranges of the response. Distinguishes a client's resend from one of
  // the server's that was reflected.
  kFlagOfResponse = 1u << 3,
  kFlagTruncate = 1u << 4,  // request, text: truncate to the model's limit instead of refusing
  // request: asks which version of the tenant's model answers; response: `status` is that version.
  // Clients that do not ask get responses as before, in which `status` is 0.
  kFlagModelVersion = 1u << 5,
};

enum class StatusCode : uint16_t {
  kOk = 0,
  kUnknownTenant = 1,
  kNotAdmitted = 2,  // the tenant exists but is paused or still loading
  kMalformed = 3,
  kUnsupportedKind = 4,
  kTooLong = 5,  // more tokens than the model has positions
  kOverQuota = 6,
  kOverloaded = 7,  // retry after header.aux microseconds
  kDeadlineReassembly = 8,
  kDeadlineQueue = 9,
  kDeadlineLaunch = 10,
  kDraining = 11,
  kDeviceFailed = 12,
  kInternal = 13,
  kBadTag = 14,         // sent only if configured; by default a bad tag is dropped silently
  kTokenRequired = 15,  // send the request again with the status's token
  kBadEpoch = 16,       // key_epoch is neither the current nor the previous epoch of the key
};
constexpr uint16_t kNumStatusCodes = 17;

// The wire layout; trailing comments give byte offsets. 16- and 32-bit fields are naturally aligned
// in the frame; request_id is 4-byte aligned.
struct [[gnu::packed]] Header {
  uint16_t magic = kMagic;              // 0
  uint8_t version = kVersion;           // 2
  Type type = Type::kRequest;           // 3
  uint8_t header_bytes = kHeaderBytes;  // 4   offset of the payload: 66, or 82 with a tag
  Auth auth = Auth::kNone;              // 5
  uint32_t tenant_id = 0;               // 6
  uint32_t session = 0;                 // 10  random number chosen by the client
  uint64_t request_id = 0;              // 14  unique in the session
  uint32_t total_bytes = 0;             // 22  payload of the whole message
  uint32_t offset = 0;                  // 26  of this piece in the message
  // Microseconds. request: deadline after arrival of its first piece, 0: none; response: time in
  // the server; busy: ask again after this time, 0: unknown; token: remaining validity.
  uint32_t budget_us = 0;                         // 30
  uint16_t payload_bytes = 0;                     // 34  in this datagram
  PayloadKind payload_kind = PayloadKind::kNone;  // 36
  ResultKind result_kind = ResultKind::kDefault;  // 37
  uint16_t flags = 0;                             // 38
  uint16_t key_epoch = 0;                         // 40
  // status: the code; response with kFlagModelVersion: see model_version().
  StatusCode status = StatusCode::kOk;  // 42
  uint16_t fragment_bytes = 0;          // 44
  // response: rows (first dimension) of the result; status: retry-after in µs; busy: requests
  // waiting.
  uint32_t aux = 0;  // 46
  // Differs between any two datagrams of one sender and session. The server accepts each number of
  // a client's session once. Part of the nonce of a sealed datagram.
  uint64_t sequence = 0;  // 50
  // request, client's resend, ack: the address token that the server gave to this client; token,
  // status token_required: a new token; response: differs between two runs of a request.
  uint64_t token = 0;  // 58
};
static_assert(sizeof(Header) == kHeaderBytes);
static_assert(offsetof(Header, tenant_id) == 6 && offsetof(Header, request_id) == 14);
static_assert(offsetof(Header, payload_bytes) == 34 && offsetof(Header, aux) == 46);
static_assert(offsetof(Header, sequence) == 50 && offsetof(Header, token) == 58);

// Marks a response as answered by a version of the tenant's model.
inline void set_model_version(Header& response, uint32_t version) noexcept {
  response.flags |= kFlagModelVersion;
  response.status = static_cast<StatusCode>(version & 0xffff);
}
// Returns the number of the version that answered, modulo 65536; nullopt: the response does not say
// it, because the request did not ask.
inline std::optional<uint16_t> model_version(const Header& response) noexcept {
  if ((response.flags & kFlagModelVersion) == 0) return std::nullopt;
  return static_cast<uint16_t>(response.status);
}

// Names used in documents, logs and JSON: "request", "deadline_queue", …. Unknown values: "?".
const char* type_name(Type type);
const char* auth_name(Auth auth);
const char* payload_kind_name(PayloadKind kind);
const char* result_kind_name(ResultKind kind);
const char* status_name(StatusCode code);

}  // namespace itif::wire
