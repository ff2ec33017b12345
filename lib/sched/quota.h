// Request quotas per tenant, shared by all workers: one atomic word per tenant, no lock. Requests
// of tenants without a quota read and write nothing here.
//
// Source: the generic cell rate algorithm (ITU-T I.371, virtual scheduling): a request conforms if
// it arrives no earlier than `tolerance` before its theoretical arrival time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "tenant/snapshot.h"

namespace itif::sched {

class Quota {
 public:
  // Returns true, and counts the request, if it conforms to `quota_rps` (0: unlimited). Allows
  // bursts of a tenth of a second's requests, at least 8. On false, `retry_after_us` is the time
  // until a retry conforms. Any thread; wait-free except under contention on one tenant.
  bool admit(uint32_t tenant_index, uint32_t quota_rps, uint64_t now_ns,
             uint32_t& retry_after_us) noexcept;
  // As admit(), without counting the request: for one that is not complete yet.
  bool would_admit(uint32_t tenant_index, uint32_t quota_rps, uint64_t now_ns,
                   uint32_t& retry_after_us) const noexcept;
  // Forgets the tenant's history. Called by control when it gives an index to another tenant.
  void reset(uint32_t tenant_index) noexcept;

 private:
  // A cache line each, so that workers that serve different tenants do not share one.
  struct alignas(64) Arrival {
    std::atomic<uint64_t> theoretical_ns{0};
  };
  std::array<Arrival, tenant::kMaxTenants> arrivals_{};
};

}  // namespace itif::sched
