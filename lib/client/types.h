// What a caller says of a request and what it is told of its end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/datagram.h"

namespace itif::client {

// What `itifctl tenant add` prints: who asks, and the key that proves it.
struct Credential {
  uint32_t tenant_id = 0;
  wire::Key key{};
  uint16_t key_epoch = 1;
  wire::Auth auth = wire::Auth::kHeader;
};

struct RequestSpec {
  Credential credential = {};
  wire::PayloadKind payload_kind = wire::PayloadKind::kText;
  wire::ResultKind result_kind = wire::ResultKind::kDefault;
  uint16_t flags = 0;      // wire::Flag
  uint32_t budget_us = 0;  // deadline, counted by the server from the first piece; 0: none
  // Borrowed until the request's outcome has been delivered.
  std::span<const std::byte> payload = {};
  uint64_t user_tag = 0;  // comes back in the outcome
};

enum class OutcomeKind : uint8_t {
  kAnswered,   // `result` holds the response
  kRefused,    // the server ended it with `status`
  kLost,       // nothing came in time, or the tries ran out
  kCancelled,  // cancel_all()
};
const char* outcome_name(OutcomeKind kind);

struct Outcome {
  uint64_t user_tag = 0;
  uint32_t tenant_id = 0;
  OutcomeKind kind = OutcomeKind::kLost;
  wire::StatusCode status = wire::StatusCode::kOk;  // kRefused: why
  wire::ResultKind result_kind = wire::ResultKind::kDefault;
  uint32_t tries = 0;           // times the request was sent, the first included
  uint32_t retry_after_us = 0;  // kRefused: when to try again, 0 if the server does not know
  uint32_t server_us = 0;       // kAnswered: what the server says it took
  uint32_t result_rows = 0;     // kAnswered: rows (tokens, classes, …) in the result
  uint64_t submitted_ns = 0;
  uint64_t completed_ns = 0;
  // The response's bytes, or the server's sentence (UTF-8) on a refusal. Borrowed for the callback.
  std::span<const std::byte> result;
};

// Called by ClientEngine::poll() with what has ended since the last call. May call submit().
class OutcomeSink {
 public:
  virtual ~OutcomeSink() = default;
  virtual void on_outcomes(std::span<const Outcome> outcomes) noexcept = 0;
};

struct RetryPolicy {
  uint32_t max_tries = 5;                // sends without a sign of life, the first included
  uint64_t initial_rto_ns = 50'000'000;  // silence after which the request is sent again
  uint32_t backoff_percent = 200;        // each silence is this much longer than the one before
  uint64_t max_rto_ns = 1'000'000'000;
  uint64_t timeout_ns = 10'000'000'000;  // from submit: then it is lost, whatever was heard
  uint64_t resend_after_ns = 5'000'000;  // gap in a half-received response: ask for the rest
  // How often a request refused with kOverloaded, kOverQuota or kNotAdmitted is asked again, after
  // the time that the server names (initial_rto_ns if it names none).
  uint32_t max_refusal_retries = 0;

  // Every request is sent once and waited for until timeout_ns.
  static RetryPolicy none(uint64_t timeout_ns) noexcept;
};

// Why an arriving datagram was not used. Each has a counter.
enum class Drop : uint8_t {
  kMalformed,    // wire::parse refused it
  kNotOurs,      // another session, or a type only a server receives
  kLate,         // its request has ended (or never was)
  kBadTag,       // tag missing, of another kind, or wrong
  kBadGeometry,  // asks for what we did not send
  kDuplicate,    // a piece that is here already
  kTooLarge,     // a response beyond max_response_bytes
  kNoMemory,     // reassembly memory is used up; the server is asked again later
};
constexpr size_t kNumDrops = 8;
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
  uint64_t retransmissions = 0;  // requests sent again after silence
  uint64_t resends_asked = 0;    // by us, for missing pieces of responses
  uint64_t resends_served = 0;   // asked by the server, for missing pieces of requests
  uint64_t busy = 0;
  uint64_t hellos = 0;
  uint64_t send_blocked = 0;  // the transport took less than a batch
  std::array<uint64_t, kNumDrops> dropped{};

  void merge(const EngineStats& other) noexcept;
};

}  // namespace itif::client
