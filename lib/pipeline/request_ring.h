// A ring of requests between a worker and an executor: rte_ring, many producers, one consumer, with
// the consumer's doorbell beside it. Producers' tails are relaxed (RTS): they share cores with
// other threads, and one that is preempted half-way must not keep the others spinning.
#pragma once

#include <rte_ring.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "pipeline/doorbell.h"
#include "request/request.h"

namespace itif::pipeline {

struct RingFree {
  void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
};

class RequestRing {
 public:
  // `name` is unique in the process. Holds at least `capacity`. Errors: kResourceExhausted.
  static Result<std::unique_ptr<RequestRing>> create(const std::string& name, uint32_t capacity);

  // Any thread. False: full.
  bool push(request::Request* request) noexcept {
    return rte_ring_enqueue(ring_.get(), request) == 0;
  }
  // The consumer.
  unsigned pop(request::Request** out, unsigned count) noexcept {
    return rte_ring_sc_dequeue_burst(ring_.get(), reinterpret_cast<void**>(out), count, nullptr);
  }
  unsigned capacity() const noexcept { return rte_ring_get_capacity(ring_.get()); }
  bool empty() const noexcept { return rte_ring_empty(ring_.get()) != 0; }
  unsigned size() const noexcept { return rte_ring_count(ring_.get()); }

  Doorbell bell;

 private:
  std::unique_ptr<rte_ring, RingFree> ring_;
};

}  // namespace itif::pipeline
