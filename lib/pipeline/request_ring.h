// A ring of requests between workers and executors: an rte_ring with one consumer. Many producers
// use relaxed tail sync (RTS), because they share cores with other threads: one that is preempted
// during an enqueue must not make the others spin.
#pragma once

#include <rte_ring.h>

#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "request/request.h"

namespace itif::pipeline {

struct RingFree {
  void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
};

class RequestRing {
 public:
  enum class Producers { kOne, kMany };
  // Holds `capacity` requests. `name` is unique in the process. Errors: kResourceExhausted.
  static Result<std::unique_ptr<RequestRing>> create(const std::string& name, uint32_t capacity,
                                                     Producers producers);

  // The producer's thread, or any thread if there are many. Returns false if the ring is full.
  bool push(request::Request* request) noexcept {
    return rte_ring_enqueue(ring_.get(), request) == 0;
  }
  // The same for several; takes all or none.
  bool push(std::span<request::Request* const> requests) noexcept {
    return rte_ring_enqueue_bulk(ring_.get(), reinterpret_cast<void* const*>(requests.data()),
                                 static_cast<unsigned>(requests.size()),
                                 nullptr) == requests.size();
  }
  // The consumer's thread.
  unsigned pop(request::Request** out, unsigned count) noexcept {
    return rte_ring_sc_dequeue_burst(ring_.get(), reinterpret_cast<void**>(out), count, nullptr);
  }
  unsigned capacity() const noexcept { return rte_ring_get_capacity(ring_.get()); }
  bool empty() const noexcept { return rte_ring_empty(ring_.get()) != 0; }
  unsigned size() const noexcept { return rte_ring_count(ring_.get()); }

 private:
  std::unique_ptr<rte_ring, RingFree> ring_;
};

}  // namespace itif::pipeline
