// The requests of a batch by tenant, then by length, then by arrival: the order in which the planners
// that pad take them (Algorithm 1, line 3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace itif::plan {

class RequestOrder {
 public:
  explicit RequestOrder(const PlanLimits& limits) : limits_(limits) {
    keys_.reserve(limits.max_requests);
  }

  // REQUIRES: at most max_requests items, each as Item says. Allocates nothing.
  void sort(std::span<const Item> items) noexcept;

  uint32_t size() const noexcept { return static_cast<uint32_t>(keys_.size()); }
  uint32_t slot(uint32_t place) const noexcept { return static_cast<uint32_t>(keys_[place] >> 40); }
  uint32_t length(uint32_t place) const noexcept {
    return static_cast<uint32_t>(keys_[place] >> 16) & 0xffffff;
  }
  uint32_t item(uint32_t place) const noexcept {
    return static_cast<uint32_t>(keys_[place]) & 0xffff;
  }
  // The place behind the last request of the tenant whose first stands at `place`.
  uint32_t tenant_end(uint32_t place) const noexcept;
  // 0: there is none.
  uint32_t longest() const noexcept;

 private:
  // slot: 24 bits, length: 24, item: 16. One integer sorts several times faster than a struct, and
  // sorting is most of what a small plan costs.
  std::vector<uint64_t> keys_;
  const PlanLimits limits_;
};

}  // namespace itif::plan
