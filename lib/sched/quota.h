// Request quotas per tenant, shared by all workers: one atomic word a tenant, no lock.
//
// Source: the generic cell rate algorithm (ITU-T I.371, virtual scheduling): a request conforms if it
// arrives no earlier than `tolerance` before its theoretical arrival time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "tenant/snapshot.h"

namespace itif::sched {

class Quota {
 public:
  // Whether one more request of the tenant conforms to `quota_rps` (0: unlimited); counts it if so.
  // Bursts of up to a tenth of a second's worth, at least 8 requests, pass. Any thread; wait-free but
  // for contention on one tenant. When it returns false, `retry_after_us` says when to come again.
  bool admit(uint32_t tenant_index, uint32_t quota_rps, uint64_t now_ns,
             uint32_t& retry_after_us) noexcept;
  // Forgets the tenant's history. Control, when an index is given to another tenant.
  void reset(uint32_t tenant_index) noexcept;

 private:
  std::array<std::atomic<uint64_t>, tenant::kMaxTenants> theoretical_arrival_ns_{};
};

}  // namespace itif::sched
