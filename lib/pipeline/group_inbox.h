// All that workers know of a group: where they lend it requests, how many wait there, and how long
// it is busy.
// execution/group_stage.h has the group's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "pipeline/request_ring.h"
#include "telemetry/counters.h"

namespace itif::pipeline {

class GroupInbox {
 public:
  // `ring` has room for all requests that the workers can have; the group's thread empties it, and
  // keeps `counters`. Both outlive the inbox.
  GroupInbox(RequestRing& ring, const telemetry::ExecutorCounters& counters)
      : ring_(ring), counters_(counters) {}

  // Lends requests; called by their worker. The group's queue limits waiting requests per tenant,
  // so no tenant can fill the ring.
  void push(std::span<request::Request* const> requests) noexcept {
    CHECK(ring_.push(requests));
    ring_.bell.ring();
  }
  void push(request::Request* request) noexcept { push(std::span(&request, 1)); }
  // Returns the approximate number of requests that wait for the group. Any thread.
  uint32_t num_waiting() const noexcept {
    return static_cast<uint32_t>(counters_.queued.read()) + ring_.size();
  }
  // Returns the expected time to serve the requests that run and wait now; 0: unknown. Any thread.
  uint64_t wait_ns(uint64_t now_ns) const noexcept {
    const uint64_t end_ns = busy_until_ns();
    return counters_.backlog_ns.read() + (end_ns - std::min(end_ns, now_ns));
  }
  // Returns when the running batches are expected to end; 0: none runs. Any thread.
  uint64_t busy_until_ns() const noexcept { return counters_.busy_until_ns.read(); }

 private:
  RequestRing& ring_;
  const telemetry::ExecutorCounters& counters_;
};

}  // namespace itif::pipeline
