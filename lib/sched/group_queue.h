// The requests that wait for a group's executor: one FIFO queue per tenant. The total and
// each tenant's queue are bounded, so that one tenant's flood fills only its own share.
//
// Owned by the executor's thread. Requests are linked through Request::next and previous; nothing
// is allocated after construction. A tenant is identified by its slot in the group.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/decayed_sum.h"
#include "request/request.h"

namespace itif::sched {

class GroupQueue {
 public:
  struct Limits {
    uint32_t max_requests = 4096;
    uint32_t max_tenant_requests = 2048;
    uint32_t max_slots = 64;
  };
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  // One tenant's waiting requests.
  struct TenantQueue {
    request::Request* head = nullptr;
    request::Request* tail = nullptr;
    uint32_t num_requests = 0;
    uint64_t num_tokens = 0;
    int64_t deficit_tokens = 0;  // the fair order's
    bool active = false;         // listed in active_slots()
    tenant::Settings settings;   // of its last request
    uint64_t alone_ns = 0;       // time of its last request in a batch alone; 0: unknown
    uint64_t last_push_ns = kNever;
    DecayedSum waiting_tokens;  // sampled at each batch selection (objectives.h)
    uint64_t objective_ns = 0;  // for the next batch (objectives.h); 0: none
  };

  explicit GroupQueue(const Limits& limits);
  // Returns true if the tenant's queue can take one more request: it is within max_tenant_requests
  // and within its share of max_requests (base/share.h). REQUIRES: slot < max_slots.
  bool has_room(uint32_t slot) const noexcept;
  // Returns false if the tenant's queue has no room. `alone_ns`: the request's time in a batch
  // alone; 0: unknown.
  bool push(request::Request* request, uint64_t now_ns = 0, uint64_t alone_ns = 0) noexcept;
  // Removes and returns the tenant's oldest request. REQUIRES: its queue is not empty.
  request::Request* pop(uint32_t slot) noexcept;
  // Removes a request from any place of its tenant's queue. REQUIRES: this queue holds it.
  void remove(request::Request* request) noexcept;
  // Slots whose tenants have requests, in the order in which they became active.
  const std::vector<uint32_t>& active_slots() const noexcept { return active_; }
  // Moves the first active slot to the end.
  void rotate() noexcept;
  TenantQueue& of_tenant(uint32_t slot) noexcept { return tenants_[slot]; }
  const TenantQueue& of_tenant(uint32_t slot) const noexcept { return tenants_[slot]; }
  uint32_t num_slots() const noexcept { return static_cast<uint32_t>(tenants_.size()); }
  uint32_t num_requests() const noexcept { return num_requests_; }
  uint64_t num_tokens() const noexcept { return num_tokens_; }

 private:
  Limits limits_;
  std::vector<TenantQueue> tenants_;  // [max_slots]
  std::vector<uint32_t> active_;      // capacity max_slots
  uint32_t num_requests_ = 0;
  uint64_t num_tokens_ = 0;
};

}  // namespace itif::sched
