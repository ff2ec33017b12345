// The requests that wait for a group's executor: one FIFO queue per tenant. The total and
// each tenant's queue are bounded, so that one tenant's flood fills only its own share.
//
// Owned by the executor's thread. Requests are linked through Request::next and previous. Allocates
// only in the constructor, and in append() beyond max_requests. A tenant is identified by its slot
// in the group.
#pragma once

#include <cstdint>
#include <vector>

#include "request/request.h"
#include "sched/deadline_heap.h"

namespace itif::sched {

class GroupQueue {
 public:
  struct Limits {
    uint32_t max_requests = 4096;
    uint32_t max_tenant_requests = 2048;
    uint32_t max_slots = 64;
  };
  // One tenant's waiting requests.
  struct TenantQueue {
    request::Request* head = nullptr;
    request::Request* tail = nullptr;
    uint32_t num_requests = 0;
    uint64_t num_tokens = 0;
    bool active = false;        // listed in active_slots()
    tenant::Settings settings;  // of its last request
  };

  explicit GroupQueue(const Limits& limits);
  // Returns true if the tenant's queue can take one more request: it is within max_tenant_requests
  // and within its share of max_requests (base/share.h). REQUIRES: slot < max_slots.
  bool has_room(uint32_t slot) const noexcept;
  // Returns false if the tenant's queue has no room.
  bool push(request::Request* request) noexcept {
    if (!has_room(request->slot)) return false;
    append(request);
    return true;
  }
  // As push(), but ignores the limits.
  void append(request::Request* request) noexcept;
  // Puts back a request that was removed, ahead of the tenant's others. A tenant without others
  // becomes the first active one.
  void put_back(request::Request* request) noexcept;
  // Removes and returns the tenant's oldest request. REQUIRES: its queue is not empty.
  request::Request* pop(uint32_t slot) noexcept;
  // Removes a request from any position in its tenant's queue. REQUIRES: this queue holds it.
  void remove(request::Request* request) noexcept;
  // Slots whose tenants have waiting requests, in the order of their turns. A slot that becomes
  // active joins at the end, or at the front by put_back().
  const std::vector<uint32_t>& active_slots() const noexcept { return active_; }
  // Moves the first active slot to the end.
  void rotate() noexcept;
  // Returns the waiting request with the earliest deadline; nullptr: none has one.
  request::Request* earliest_deadline() const noexcept { return deadlines_.earliest(); }
  size_t num_with_deadline() const noexcept { return deadlines_.size(); }
  const TenantQueue& of_tenant(uint32_t slot) const noexcept { return tenants_[slot]; }
  // Returns the sum of the active tenants' weights.
  uint64_t active_weights() const noexcept { return active_weights_; }
  struct Backlog {
    double num_requests = 0;
    double num_tokens = 0;
  };
  // Returns the work that is served until the tenant's queue is empty, if all active tenants are
  // served by weight.
  Backlog backlog_of(uint32_t slot) const noexcept;
  // Returns the work of all waiting requests.
  Backlog backlog() const noexcept {
    return {.num_requests = static_cast<double>(num_requests_),
            .num_tokens = static_cast<double>(num_tokens_)};
  }
  uint32_t num_slots() const noexcept { return static_cast<uint32_t>(tenants_.size()); }
  uint32_t num_requests() const noexcept { return num_requests_; }
  uint64_t num_tokens() const noexcept { return num_tokens_; }

 private:
  // Counts a request that its tenant's list has taken in.
  void count(request::Request* request) noexcept;

  Limits limits_;
  std::vector<TenantQueue> tenants_;  // [max_slots]
  std::vector<uint32_t> active_;      // capacity max_slots
  DeadlineHeap deadlines_;
  uint32_t num_requests_ = 0;
  uint64_t num_tokens_ = 0;
  uint64_t active_weights_ = 0;
};

}  // namespace itif::sched
