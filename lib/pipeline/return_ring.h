// What groups give back to a worker: packets that have been read, of requests that go on, and requests that
// have ended. One ring for both, so that a request's packets never come behind the request, which then may be
// another's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "pipeline/request_ring.h"

namespace itif::pipeline {

class ReturnRing {
 public:
  // What comes back of a request.
  class Item {
   public:
    request::Request& request() const noexcept {
      return *reinterpret_cast<request::Request*>(tagged_ & ~kPacketsOnly);
    }
    bool has_ended() const noexcept { return (tagged_ & kPacketsOnly) == 0; }

   private:
    uintptr_t tagged_;
  };

  // Holds what so many requests can give back. `name` is unique in the process. Errors: kResourceExhausted.
  static Result<std::unique_ptr<ReturnRing>> create(const std::string& name, uint32_t requests) {
    auto made = std::make_unique<ReturnRing>();
    ITIF_ASSIGN(made->ring_, RequestRing::create(name, kItemsOfRequest * requests));
    return made;
  }

  // Any thread. False: full.
  bool push(request::Request* request) noexcept { return ring_->push(request); }
  // REQUIRES: at most once for each request, and before push() of it, by the same thread.
  bool push_packets(request::Request* request) noexcept {
    return ring_->push(
        reinterpret_cast<request::Request*>(reinterpret_cast<uintptr_t>(request) | kPacketsOnly));
  }
  // The worker.
  unsigned pop(Item* out, unsigned count) noexcept {
    static_assert(sizeof(Item) == sizeof(request::Request*));
    return ring_->pop(reinterpret_cast<request::Request**>(out), count);
  }
  // Requests.
  unsigned capacity() const noexcept { return ring_->capacity() / kItemsOfRequest; }
  bool empty() const noexcept { return ring_->empty(); }
  unsigned size() const noexcept { return ring_->size(); }
  Doorbell& bell() noexcept { return ring_->bell; }

 private:
  static constexpr uintptr_t kPacketsOnly = 1;
  static_assert(alignof(request::Request) > kPacketsOnly);
  static constexpr uint32_t kItemsOfRequest = 2;

  std::unique_ptr<RequestRing> ring_;
};

}  // namespace itif::pipeline
