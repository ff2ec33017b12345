// Types of the client: a request, its outcome, the engine's options and statistics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/datagram.h"

namespace itif::client {

// A tenant's id and key, as `itifctl tenant add` prints them.
struct Credential {
  uint32_t tenant_id = 0;
  wire::Key key{};
  uint16_t key_epoch = 1;
  wire::Auth auth = wire::Auth::kFull;
};

struct RequestSpec {
  Credential credential = {};
  wire::PayloadKind payload_kind = wire::PayloadKind::kText;
  wire::ResultKind result_kind = wire::ResultKind::kDefault;
  uint16_t flags = 0;      // wire::Flag
  uint32_t budget_us = 0;  // deadline, from the first piece's arrival at the server; 0: none
  // Borrowed until the request's outcome has been delivered.
  std::span<const std::byte> payload = {};
  uint64_t user_tag = 0;    // copied to the outcome
  uint64_t timeout_ns = 0;  // from submit(); 0: the retry policy's
};

enum class OutcomeKind : uint8_t {
  kAnswered,   // `result` holds the response
  kRefused,    // the server ended it with `status`
  kLost,       // no answer in time, or no try is left
  kCancelled,  // cancel_all()
};
const char* outcome_name(OutcomeKind kind);

struct Outcome {
  uint64_t user_tag = 0;
  uint32_t tenant_id = 0;
  OutcomeKind kind = OutcomeKind::kLost;
  wire::StatusCode status = wire::StatusCode::kOk;  // kRefused: the reason
  wire::ResultKind result_kind = wire::ResultKind::kDefault;
  uint32_t tries = 0;           // times the request was sent, including the first
  uint32_t retry_after_us = 0;  // kRefused: delay before a retry; 0: unknown
  uint32_t server_us = 0;       // kAnswered: the time that the server reports
  uint32_t result_rows = 0;     // kAnswered: rows (tokens, classes, …) in the result
  // kAnswered, and the request had kFlagModelVersion: the number of the version that answered,
  // modulo 65536.
  std::optional<uint16_t> model_version;
  uint64_t submitted_ns = 0;
  uint64_t completed_ns = 0;
  // The response, or the server's message (UTF-8) on a refusal. Valid during the callback.
  std::span<const std::byte> result;
};

// Receives the outcomes of requests that have ended, from ClientEngine::poll() and cancel_all().
// May call submit().
class OutcomeSink {
 public:
  virtual ~OutcomeSink() = default;
  virtual void on_outcomes(std::span<const Outcome> outcomes) noexcept = 0;
};

struct RetryPolicy {
  uint32_t max_tries = 10;               // sends without a reply, including the first
  uint64_t initial_rto_ns = 50'000'000;  // the shortest silence after which a request is repeated
  // The shortest silence after which a request is repeated that is probably not lost: the server
  // may need long, and repeats would load it further. See engine_timers.cc.
  uint64_t patient_rto_ns = 1'000'000'000;
  uint32_t backoff_percent = 200;  // each RTO in percent of the previous one
  uint64_t max_rto_ns = 1'000'000'000;
  uint64_t max_busy_ns = 5'000'000'000;  // most that a busy server can delay the next repeat
  uint64_t timeout_ns = 10'000'000'000;  // from submit(); then the request is lost in any case
  // The shortest gap in an incomplete response after which its missing pieces are asked for. On a
  // path that is long or reorders, the engine waits longer. See engine_timers.cc.
  uint64_t resend_after_ns = 5'000'000;
  // Retries of a request refused with kOverloaded, kOverQuota or kNotAdmitted. Each waits the time
  // that the server gives (initial_rto_ns if it gives none) and carries the rest of the request's
  // deadline. No retry follows the deadline.
  uint32_t max_refusal_retries = 0;

  // Sends each request once and waits timeout_ns for its answer.
  static RetryPolicy none(uint64_t timeout_ns) noexcept;
};

struct EngineOptions {
  uint32_t session = 0;        // random: separates this client's requests from an earlier one's
  uint64_t first_request = 0;  // the first request id; random makes ids hard to guess
  // The first sequence number, of which 62 bits count. REQUIRES: two engines of one session and
  // source port never share a number, and the later one's are larger. Absent: random.
  std::optional<uint64_t> first_sequence = {};
  uint32_t max_in_flight = 1024;  // concurrent requests; rounded up to a power of two
  uint32_t fragment_bytes = wire::kDefaultFragmentBytes;  // payload of a request's piece
  uint32_t max_response_bytes = wire::kMaxTotalBytes;
  uint64_t max_reassembly_bytes = 64u << 20;  // for incomplete responses, all requests together
  uint32_t burst_datagrams = 256;             // most that one poll() sends, per flow
  RetryPolicy retry = {};
};

enum class Submit : uint8_t {
  kAccepted,
  // max_in_flight requests are in flight, or there is no memory to encrypt a request: poll() and
  // try again.
  kFull,
  kTooLarge,  // the payload is above wire::kMaxTotalBytes
};

// Reasons for not using an arriving datagram. Each has a counter.
enum class Drop : uint8_t {
  kMalformed,    // wire::parse refused it
  kNotOurs,      // another session, or a type that only servers receive
  kLate,         // its request has ended or never existed
  kBadTag,       // tag missing, of another kind, or wrong
  kBadGeometry,  // asks for pieces that the request does not have
  kDuplicate,    // a piece received before
  kReplayed,     // older than one received before: sent again by somebody, or late
  kTooLarge,     // a response beyond max_response_bytes
  kNoMemory,     // reassembly memory is exhausted; a timer asks the server again
};
constexpr size_t kNumDrops = 9;
const char* drop_name(Drop drop);

// received = used + Σ dropped.
struct EngineStats {
  uint64_t submitted = 0;
  uint64_t answered = 0;
  uint64_t refused = 0;
  uint64_t lost = 0;
  uint64_t cancelled = 0;
  uint64_t datagrams_sent = 0;
  uint64_t bytes_sent = 0;  // UDP payload
  uint64_t datagrams_received = 0;
  uint64_t bytes_received = 0;
  uint64_t datagrams_used = 0;
  uint64_t retransmissions = 0;  // requests sent again, except as a whole
  uint64_t silence_repeats = 0;  // of these, those after silence
  uint64_t busy_repeats = 0;     // of these, those at the time that `busy` named
  uint64_t token_refusals = 0;   // requests sent again because their address token was too old
  uint64_t hints = 0;            // refusals without a tag, which anybody can forge
  uint64_t resends_asked = 0;    // sent, for missing pieces of responses
  uint64_t resends_served = 0;   // received, for missing pieces of requests
  uint64_t busy = 0;
  uint64_t hellos = 0;
  uint64_t tokens = 0;        // address tokens received in answer to hellos
  uint64_t send_blocked = 0;  // the transport took less than a batch
  std::array<uint64_t, kNumDrops> dropped{};

  void merge(const EngineStats& other) noexcept;
};

}  // namespace itif::client
