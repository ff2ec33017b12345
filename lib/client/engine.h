// The client side of the protocol (docs/protocol.md) as a state machine without threads or sockets.
//
// The engine cuts a request into pieces and sends them. Each request ends exactly once: answered,
// refused, lost or cancelled. Until then the engine retransmits after silence, serves the server's
// resend requests, asks for missing pieces of a response, and acknowledges responses of several
// datagrams. Before the first request of a flow it says hello, and waits for the address token that
// the server demands. It checks each datagram's tag, session, request and geometry before use, and
// counts a failed one under a Drop.
//
// One owner thread. After construction the engine allocates only buffers for responses of several
// datagrams, which are pooled and bounded, and 64 pieces per flow at the first sealed request. Time
// comes from the Clock.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "client/transport.h"
#include "client/types.h"

namespace itif::client {

class EngineState;

class ClientEngine {
 public:
  // Errors: kInvalidArgument, naming the option that is out of range.
  // REQUIRES: clock, transport and sink outlive the engine.
  static Result<std::unique_ptr<ClientEngine>> create(const Clock& clock, Transport& transport,
                                                      OutcomeSink& sink, EngineOptions options);
  ~ClientEngine();
  ClientEngine(const ClientEngine&) = delete;
  ClientEngine& operator=(const ClientEngine&) = delete;

  // Accepts a request; the next poll() or flush() sends its first datagrams.
  Submit submit(const RequestSpec& spec) noexcept;
  // Receives, runs timers, delivers outcomes, sends. Returns the datagrams received and sent.
  size_t poll() noexcept;
  // Sends what is due now; poll() includes it.
  size_t flush() noexcept;
  // Ends all requests as kCancelled and delivers the outcomes; submit() returns kFull meanwhile.
  void cancel_all() noexcept;

  uint32_t in_flight() const noexcept;
  // Returns true if datagrams wait for the transport: poll() again soon.
  bool has_unsent() const noexcept;
  // Returns when poll() must run next if nothing arrives, rounded to the timers' tick; UINT64_MAX:
  // never.
  uint64_t next_timer_ns() const noexcept;
  const EngineStats& stats() const noexcept;

 private:
  explicit ClientEngine(std::unique_ptr<EngineState> state);
  std::unique_ptr<EngineState> state_;
};

}  // namespace itif::client
