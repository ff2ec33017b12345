// The client's side of the protocol (docs/protocol.md) as a state machine without threads or
// sockets.
//
// A request is cut into pieces and sent; it ends exactly once: answered, refused, lost or
// cancelled. Between the two the engine retransmits after silence, serves the server's resend
// requests, asks for missing pieces of a response, says hello when the server wants an address
// token, and acknowledges responses of several datagrams. It never trusts a datagram: tag, session,
// request and geometry are checked first, and what fails is counted under a Drop.
//
// One owner thread. Nothing is allocated after construction but buffers for responses of several
// datagrams, which are pooled and bounded. Time comes from the Clock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/clock.h"
#include "base/error.h"
#include "client/transport.h"
#include "client/types.h"

namespace itif::client {

struct EngineOptions {
  uint32_t session = 0;           // random: tells this client's requests from an earlier one's
  uint64_t first_request = 0;     // where request ids start; random makes them hard to guess
  uint32_t max_in_flight = 1024;  // requests at a time; rounded up to a power of two
  uint32_t fragment_bytes = wire::kDefaultFragmentBytes;  // payload of a request's piece
  uint32_t max_response_bytes = wire::kMaxTotalBytes;
  uint64_t max_reassembly_bytes = 64u << 20;  // of half-received responses, all requests together
  uint32_t burst_datagrams = 256;             // sent by one poll() at most, per flow
  RetryPolicy retry = {};
};

enum class Submit : uint8_t {
  kAccepted,
  kFull,      // max_in_flight requests are under way: poll() and try again
  kTooLarge,  // the payload is above wire::kMaxTotalBytes
};

class ClientEngine {
 public:
  // Errors: kInvalidArgument, naming the option that is out of range.
  // REQUIRES: clock, transport and sink outlive the engine.
  static Result<std::unique_ptr<ClientEngine>> create(const Clock& clock, Transport& transport,
                                                      OutcomeSink& sink, EngineOptions options);
  ~ClientEngine();
  ClientEngine(const ClientEngine&) = delete;
  ClientEngine& operator=(const ClientEngine&) = delete;

  // Takes a request; its first datagrams leave at the next poll() or flush().
  Submit submit(const RequestSpec& spec) noexcept;
  // Receives, runs timers, delivers outcomes, sends. Returns the datagrams received and sent.
  size_t poll() noexcept;
  // Sends what is due now; poll() includes it.
  size_t flush() noexcept;
  // Ends all requests as kCancelled and delivers that; submit() says kFull meanwhile.
  void cancel_all() noexcept;

  uint32_t in_flight() const noexcept;
  // True if datagrams wait for the transport: poll() again soon.
  bool has_unsent() const noexcept;
  // When poll() is next needed if nothing arrives, rounded to the timers' tick; UINT64_MAX: never.
  uint64_t next_timer_ns() const noexcept;
  const EngineStats& stats() const noexcept;

 private:
  class State;
  explicit ClientEngine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace itif::client
