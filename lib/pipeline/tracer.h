// Records the times of a tenant's next requests, for people who follow single requests.
//
// One trace at a time. Workers call add() with each request that ends or is refused; while nobody
// traces its tenant this costs a load and a comparison. Records go to slots that the first trace
// allocates and that stay until the tracer is destroyed: a worker claims the next slot with one
// compare and swap, and no worker waits. Control starts, reads and stops traces.
//
// Invariant: a slot is written only by the worker that claimed it, and start() waits until all
// claimed slots of the trace before are written.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "request/times.h"
#include "wire/header.h"

namespace itif::pipeline {

// A finished or refused request. Its times of stages that it did not reach are 0.
struct TracedRequest {
  uint64_t request_id = 0;
  uint32_t session = 0;
  uint32_t num_tokens = 0;
  uint16_t worker = 0;
  wire::StatusCode status = wire::StatusCode::kOk;
  request::Times times;
};

class Tracer {
 public:
  static constexpr uint32_t kMaxRequests = 1000;
  // A trace that is not read for so long may be replaced: its reader has gone.
  static constexpr uint64_t kAbandonedNs = 3'000'000'000;

  explicit Tracer(const Clock& clock) : clock_(clock) {}

  // Workers. Returns true if add() might keep a request of this tenant.
  bool wants(uint32_t tenant_id) const noexcept {
    const uint64_t target = target_.load(std::memory_order_acquire);
    return target != 0 && static_cast<uint32_t>(target) == tenant_id;
  }
  // Keeps the request if its tenant is traced, it arrived after start(), and the trace is not full.
  void add(uint32_t tenant_id, const TracedRequest& request) noexcept;

  // Control, any thread. Traces the next `num_requests` of a tenant. Returns the trace's number.
  // Errors: kUnavailable (another trace runs). REQUIRES: 1 ≤ num_requests ≤ kMaxRequests.
  Result<uint32_t> start(uint32_t tenant_id, uint32_t num_requests);
  struct Reading {
    uint32_t tenant_id = 0;
    uint32_t wanted = 0;  // requests
    std::vector<TracedRequest> requests;
  };
  // Returns the records from number `first` on, in the order in which the requests ended, at most
  // `most`. Errors: kNotFound (no such trace, or it was stopped or replaced).
  Result<Reading> read(uint32_t trace, uint32_t first, uint32_t most);
  // Ends a trace before it is full. Errors: as read().
  Status stop(uint32_t trace);

 private:
  struct Slot {
    std::atomic<uint32_t> trace{0};  // number of the trace whose record is complete; 0: none
    TracedRequest request;
  };
  static constexpr uint32_t kClosed = UINT32_MAX;  // in claims_: the trace takes no more records

  static uint64_t pair(uint32_t trace, uint32_t low) noexcept {
    return uint64_t{trace} << 32 | low;
  }
  Status check(uint32_t trace) const;
  void close() noexcept;

  const Clock& clock_;
  // The trace, and the tenant's id; 0: nobody traces.
  std::atomic<uint64_t> target_{0};
  // The trace, and the number of claimed slots.
  std::atomic<uint64_t> claims_{pair(0, kClosed)};
  std::atomic<uint32_t> wanted_{0};    // of the present trace, as is the next
  std::atomic<uint64_t> since_ns_{0};  // requests that arrived earlier are left out

  std::mutex mutex_;  // guards the following, which control uses
  std::unique_ptr<Slot[]> slots_;
  uint32_t trace_ = 0;    // the last one started
  bool is_open_ = false;  // it was not stopped
  uint32_t tenant_id_ = 0;
  uint32_t num_claimed_ = 0;  // when it was closed
  uint64_t read_ns_ = 0;
};

}  // namespace itif::pipeline
