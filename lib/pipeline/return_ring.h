// The ring by which groups return requests to a worker: first a request's packets, once they have
// been read, then the request, when it has ended. Both use one ring, so that packets never arrive
// after their request, whose context may then hold another request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "pipeline/doorbell.h"
#include "pipeline/request_ring.h"

namespace itif::pipeline {

class ReturnRing {
 public:
  // A request that has ended, or only the packets of one that continues.
  class Item {
   public:
    request::Request& request() const noexcept {
      return *reinterpret_cast<request::Request*>(tagged_ & ~kPacketsOnly);
    }
    bool has_ended() const noexcept { return (tagged_ & kPacketsOnly) == 0; }

   private:
    uintptr_t tagged_;
  };

  // Has room for everything that `requests` requests can return. `name` is unique in the process.
  // Errors: kResourceExhausted.
  static Result<std::unique_ptr<ReturnRing>> create(const std::string& name, uint32_t requests) {
    auto made = std::make_unique<ReturnRing>();
    ITIF_ASSIGN(made->ring_, RequestRing::create(name, kItemsOfRequest * requests,
                                                 RequestRing::Producers::kMany));
    return made;
  }

  // Any thread. Returns false if the ring is full.
  bool push(request::Request* request) noexcept { return ring_->push(request); }
  // REQUIRES: called at most once per request, before its push(), by the same thread.
  bool push_packets(request::Request* request) noexcept {
    return ring_->push(
        reinterpret_cast<request::Request*>(reinterpret_cast<uintptr_t>(request) | kPacketsOnly));
  }
  // The worker's thread.
  unsigned pop(Item* out, unsigned count) noexcept {
    static_assert(sizeof(Item) == sizeof(request::Request*));
    return ring_->pop(reinterpret_cast<request::Request**>(out), count);
  }
  // Returns for how many requests the ring has room.
  unsigned capacity() const noexcept { return ring_->capacity() / kItemsOfRequest; }
  bool empty() const noexcept { return ring_->empty(); }
  unsigned size() const noexcept { return ring_->size(); }
  Doorbell& bell() noexcept { return bell_; }

 private:
  static constexpr uintptr_t kPacketsOnly = 1;
  static_assert(alignof(request::Request) > kPacketsOnly);
  static constexpr uint32_t kItemsOfRequest = 2;

  std::unique_ptr<RequestRing> ring_;
  Doorbell bell_;
};

}  // namespace itif::pipeline
