// Moves UDP payloads between one thread and one server. The engine builds and reads datagrams; a
// transport only carries them, so that sockets, DPDK ports and a test's memory are interchangeable.
//
// A transport has one or more flows, each with its own source port, so that a server can distribute
// work by 5-tuple. All datagrams of a request use one flow. One owner thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace itif::client {

// A datagram to send: its bytes are head followed by body. Borrowed for the call.
struct Outgoing {
  std::span<const std::byte> head;
  std::span<const std::byte> body;
};

// A datagram that arrived on a flow. Borrowed until the next receive(); the receiver may write to
// it, which decrypts a sealed payload in place.
struct Incoming {
  uint32_t flow = 0;
  std::span<std::byte> bytes;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual uint32_t num_flows() const noexcept = 0;
  // Sends a batch in order. Returns how many were taken; the caller offers the rest again later.
  // A datagram that can never be sent (too big for the path) counts as taken, and as lost.
  virtual size_t send(uint32_t flow, std::span<const Outgoing> batch) noexcept = 0;
  // Fills the front of `batch`; returns how many datagrams arrived. Never blocks.
  virtual size_t receive(std::span<Incoming> batch) noexcept = 0;
  // Returns when a datagram may have arrived or after timeout_ns. May return early.
  virtual void wait(uint64_t timeout_ns) noexcept = 0;
};

}  // namespace itif::client
