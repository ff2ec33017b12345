// All that workers know of a group: where they lend it requests, and how many wait there.
// execution/group_stage.h has the group's thread.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "pipeline/request_ring.h"
#include "telemetry/counters.h"

namespace itif::pipeline {

class GroupInbox {
 public:
  // `ring` has room for all requests that the workers can have; the group's thread empties it.
  // `queued` counts the requests that it has taken and not executed yet. Both outlive the inbox.
  GroupInbox(RequestRing& ring, const telemetry::Gauge& queued) : ring_(ring), queued_(queued) {}

  // Lends a request; called by its worker. The group's queue limits waiting requests per tenant, so
  // no tenant can fill the ring.
  void push(request::Request* request) noexcept {
    CHECK(ring_.push(request));
    ring_.bell.ring();
  }
  // Returns the approximate number of requests that wait for the group. Any thread.
  uint32_t num_waiting() const noexcept {
    return static_cast<uint32_t>(queued_.read()) + ring_.size();
  }

 private:
  RequestRing& ring_;
  const telemetry::Gauge& queued_;
};

}  // namespace itif::pipeline
