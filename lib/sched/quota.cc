#include "sched/quota.h"

#include <algorithm>

namespace itif::sched {

bool Quota::admit(uint32_t tenant_index, uint32_t quota_rps, uint64_t now_ns,
                  uint32_t& retry_after_us) noexcept {
  if (quota_rps == 0) return true;
  const uint64_t interval_ns = std::max<uint64_t>(1, 1'000'000'000u / quota_rps);
  const uint64_t burst = std::max<uint64_t>(8, quota_rps / 10);
  const uint64_t tolerance_ns = interval_ns * (burst - 1);
  std::atomic<uint64_t>& word = theoretical_arrival_ns_[tenant_index];
  uint64_t expected_ns = word.load(std::memory_order_relaxed);
  for (;;) {
    if (expected_ns > now_ns + tolerance_ns) {
      retry_after_us = static_cast<uint32_t>(
          std::min<uint64_t>((expected_ns - tolerance_ns - now_ns) / 1000 + 1, UINT32_MAX));
      return false;
    }
    const uint64_t next_ns = std::max(expected_ns, now_ns) + interval_ns;
    if (word.compare_exchange_weak(expected_ns, next_ns, std::memory_order_relaxed)) return true;
  }
}

void Quota::reset(uint32_t tenant_index) noexcept {
  theoretical_arrival_ns_[tenant_index].store(0, std::memory_order_relaxed);
}

}  // namespace itif::sched
