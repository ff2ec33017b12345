// The requests that workers lend to a group: a ring per worker, each with one producer (the worker)
// and one consumer (the group's thread). Workers thus write nothing that other workers write.
//
// Workers also read here how many requests wait for the group, and how long the group will be busy.
// execution/group_stage.h has the group's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "pipeline/doorbell.h"
#include "pipeline/request_ring.h"
#include "telemetry/counters.h"

namespace itif::pipeline {

class GroupInbox {
 public:
  // `capacities[w]`: the requests that worker w can have, so that its ring is never full. `name` is
  // unique in the process. The group's thread keeps `counters`, which outlive the inbox. Errors:
  // kResourceExhausted.
  static Result<std::unique_ptr<GroupInbox>> create(const std::string& name,
                                                    std::span<const uint32_t> capacities,
                                                    const telemetry::ExecutorCounters& counters);

  // Lends requests of one worker; called by that worker's thread. The group's queue limits waiting
  // requests per tenant, so no tenant can fill a ring.
  void push(std::span<request::Request* const> requests) noexcept {
    if (requests.empty()) return;
    CHECK(rings_[requests.front()->worker]->push(requests));
    bell_.ring();
  }
  void push(request::Request* request) noexcept { push(std::span(&request, 1)); }
  // Returns the approximate number of requests that wait for the group. Any thread.
  uint32_t num_waiting() const noexcept {
    auto waiting = static_cast<uint32_t>(counters_.queued.read());
    for (const auto& ring : rings_) waiting += ring->size();
    return waiting;
  }
  // Returns the expected time until the running batches end and the executor's queue is served.
  // Requests in the rings do not count. 0: none, or unknown. Any thread.
  uint64_t wait_ns(uint64_t now_ns) const noexcept {
    const uint64_t end_ns = busy_until_ns();
    return counters_.backlog_ns.read() + (end_ns - std::min(end_ns, now_ns));
  }
  // Returns when the running batches are expected to end; 0: none runs. Any thread.
  uint64_t busy_until_ns() const noexcept { return counters_.busy_until_ns.read(); }

  // Takes up to `count` requests: those of each worker in their order, and the workers in turn. The
  // group's thread.
  unsigned pop(request::Request** out, unsigned count) noexcept;
  // Returns true if no worker has lent a request that was not popped. Any thread.
  bool empty() const noexcept {
    return std::ranges::all_of(rings_, [](const auto& ring) { return ring->empty(); });
  }
  // Wakes the group's thread.
  Doorbell& bell() noexcept { return bell_; }

 private:
  explicit GroupInbox(const telemetry::ExecutorCounters& counters) : counters_(counters) {}

  std::vector<std::unique_ptr<RequestRing>> rings_;  // by worker
  const telemetry::ExecutorCounters& counters_;
  Doorbell bell_;
  // The worker that pop() takes from first. Behind the bell, in another cache line than what
  // workers read: the group's thread writes it in every poll.
  size_t next_ = 0;
};

}  // namespace itif::pipeline
