#include "sched/quota.h"

#include <algorithm>

namespace itif::sched {
namespace {

// Times of the algorithm for a quota. REQUIRES: quota_rps > 0.
struct Rate {
  explicit Rate(uint32_t quota_rps)
      : interval_ns(std::max<uint64_t>(1, 1'000'000'000u / quota_rps)),
        tolerance_ns(interval_ns * (std::max<uint64_t>(8, quota_rps / 10) - 1)) {}

  // Returns 0 if a request conforms at now_ns, else the µs until one does.
  uint32_t wait_us(uint64_t expected_ns, uint64_t now_ns) const noexcept {
    if (expected_ns <= now_ns + tolerance_ns) return 0;
    return static_cast<uint32_t>(
        std::min<uint64_t>((expected_ns - tolerance_ns - now_ns) / 1000 + 1, UINT32_MAX));
  }

  uint64_t interval_ns;
  uint64_t tolerance_ns;
};

}  // namespace

bool Quota::admit(uint32_t tenant_index, uint32_t quota_rps, uint64_t now_ns,
                  uint32_t& retry_after_us) noexcept {
  if (quota_rps == 0) return true;
  const Rate rate(quota_rps);
  std::atomic<uint64_t>& word = arrivals_[tenant_index].theoretical_ns;
  uint64_t expected_ns = word.load(std::memory_order_relaxed);
  for (;;) {
    if (const uint32_t wait_us = rate.wait_us(expected_ns, now_ns); wait_us > 0) {
      retry_after_us = wait_us;
      return false;
    }
    const uint64_t next_ns = std::max(expected_ns, now_ns) + rate.interval_ns;
    if (word.compare_exchange_weak(expected_ns, next_ns, std::memory_order_relaxed)) return true;
  }
}

bool Quota::would_admit(uint32_t tenant_index, uint32_t quota_rps, uint64_t now_ns,
                        uint32_t& retry_after_us) const noexcept {
  if (quota_rps == 0) return true;
  const uint64_t expected_ns =
      arrivals_[tenant_index].theoretical_ns.load(std::memory_order_relaxed);
  retry_after_us = Rate(quota_rps).wait_us(expected_ns, now_ns);
  return retry_after_us == 0;
}

void Quota::reset(uint32_t tenant_index) noexcept {
  arrivals_[tenant_index].theoretical_ns.store(0, std::memory_order_relaxed);
}

}  // namespace itif::sched
