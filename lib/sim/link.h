// A simulated link between a client engine and the appliance's NIC. In each direction datagrams
// wait for the link's rate, take its delay, and may be lost, duplicated, reordered or damaged, by a
// seed.
//
// The client's side carries UDP payloads (client::Transport), the NIC's side Ethernet frames. A
// frame to the NIC may be damaged anywhere after its MAC addresses. A datagram to the client is
// damaged in its UDP payload only, because an operating system drops the others, which is loss.
// UDP checksums are absent (0, as RFC 768 allows): tags have to find damage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "client/transport.h"
#include "sim/dpdk_nic.h"
#include "sim/scenario.h"

namespace itif::sim {

// The addresses of both ends.
inline constexpr std::array<uint8_t, 4> kServerAddress = {198, 18, 0, 1};
inline constexpr std::array<uint8_t, 4> kClientAddress = {198, 18, 0, 2};
inline constexpr uint16_t kServerPort = 9009;
inline constexpr uint16_t kFirstClientPort = 40000;  // flow f sends from this port + f

struct LinkFigures {
  uint64_t sent = 0;  // datagrams that entered the link
  uint64_t lost = 0, duplicated = 0, damaged = 0;
  uint64_t missed = 0;  // had no room at the NIC
};

class Link final : public client::Transport {
 public:
  // `clock` and `nic` outlive the link.
  Link(const VirtualClock& clock, Nic& nic, const LinkOptions& options, uint32_t num_flows,
       uint64_t seed);

  void set_options(const LinkOptions& options) { options_ = options; }
  // Hands the frames that are due to the NIC. Returns their number.
  size_t deliver();
  // Takes what the worker has sent. Returns the number of frames.
  size_t collect();
  // Loses all that is under way.
  void clear();
  // When the next datagram arrives at either end; UINT64_MAX: none is under way.
  uint64_t next_event_ns() const noexcept;
  const LinkFigures& figures() const noexcept { return figures_; }

  // client::Transport.
  uint32_t num_flows() const noexcept override { return num_flows_; }
  size_t send(uint32_t flow, std::span<const client::Outgoing> batch) noexcept override;
  size_t receive(std::span<client::Incoming> batch) noexcept override;
  void wait(uint64_t) noexcept override {}

 private:
  using Bytes = std::vector<std::byte>;
  struct Packet {
    uint64_t at_ns = 0;
    uint64_t order = 0;
    uint32_t flow = 0;
    uint32_t buffer = 0;                         // index into buffers_
    bool operator<(const Packet& other) const {  // the earliest is the queue's top
      return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
    }
  };
  struct Direction {
    std::priority_queue<Packet> packets;
    uint64_t free_at_ns = 0;        // when the last datagram has entered the link
    size_t first_damaged_byte = 0;  // damage changes this byte or a later one
  };
  // Sends `bytes` through the link.
  void enter(Direction& direction, uint32_t flow, std::span<const std::byte> bytes);
  uint32_t acquire(std::span<const std::byte> bytes);

  const VirtualClock& clock_;
  Nic& nic_;
  LinkOptions options_;
  const uint32_t num_flows_;
  Random random_;
  Direction up_, down_;
  uint64_t order_ = 0;
  std::vector<Bytes> buffers_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> received_;  // buffers lent by the last receive()
  Bytes frame_;
  LinkFigures figures_;
};

}  // namespace itif::sim
