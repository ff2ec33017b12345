// Spreads the frames of a queue over several workers in software, for a port with fewer queues than
// workers. Belongs to the worker that owns the queue; the others are its members.
//
//   port ── rx burst ──► owner ── flow_hash.h ─┬─► its own share
//                                              └─► lane ──► member
//   port ◄── tx burst ── owner ◄── lane ◄── member
//
// All datagrams of a flow go to one worker, as with RSS, so that sessions, reassembly and the
// response cache stay with one worker each. Address tokens need no state. The owner keeps ARP, ICMP
// and all else that is not UDP: its answers go to the MAC address that asked, so no worker needs a
// neighbour table.
//
// The owner's thread. Allocates only at construction; never blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "net/tx_buffer.h"
#include "pipeline/spread_lane.h"

namespace itif::pipeline {

class Spreader {
 public:
  static constexpr size_t kMaxBurst = 64;

  // `seed`: secret, of the flows' hash. The lanes outlive the spreader.
  Spreader(std::vector<SpreadLane*> lanes, uint64_t seed) : lanes_(std::move(lanes)), seed_(seed) {}

  struct Split {
    size_t own = 0;     // frames at the front of the burst: the owner's share
    size_t full = 0;    // frames behind them, for a member whose ring had no room
    size_t passed = 0;  // frames that members have taken over
  };
  // Passes frames on to the members, and moves the other frames to the front of the burst, in
  // order. The caller still owns the other frames. REQUIRES: burst.size() <= kMaxBurst.
  Split split(std::span<rte_mbuf*> burst) noexcept;

  // Moves frames of the members to `out`, but leaves the owner's answers their share of the room.
  // Returns the number of frames.
  size_t collect(net::TxBuffer& out) noexcept;
  // Returns true if a member has put frames to send into its ring.
  bool has_to_send() const noexcept;
  // Returns true if no member sends anything more.
  bool have_ended() const noexcept;

 private:
  std::vector<SpreadLane*> lanes_;
  uint64_t seed_;
  size_t first_ = 0;    // the lane that the next collect() begins with
  bool waits_ = false;  // the last collect() left the little room to the owner
};

}  // namespace itif::pipeline
