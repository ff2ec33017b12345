// A batch's requests by tenant (Item::rank()), then by length, then by arrival: the order that the
// padding planners use (ITIF, Algorithm 1, line 3).
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

  // REQUIRES: at most max_requests items, each as Item says; they outlive the use of the order.
  // Allocates nothing.
  void sort(std::span<const Item> items) noexcept;

  uint32_t size() const noexcept { return static_cast<uint32_t>(keys_.size()); }
  uint32_t slot(uint32_t rank) const noexcept { return items_[item(rank)].slot; }
  uint32_t adapter(uint32_t rank) const noexcept { return items_[item(rank)].adapter; }
  uint32_t length(uint32_t rank) const noexcept {
    return static_cast<uint32_t>(keys_[rank] >> 16) & 0xffffff;
  }
  uint32_t item(uint32_t rank) const noexcept {
    return static_cast<uint32_t>(keys_[rank]) & 0xffff;
  }
  // Returns the rank after the last request of the tenant whose first is at `rank`.
  uint32_t tenant_end(uint32_t rank) const noexcept;
  // Returns the length of the longest request; 0: there are no requests.
  uint32_t longest() const noexcept;

 private:
  // Item::rank(): 24 bits, length: 24, item: 16. An integer sorts several times faster than a
  // struct, and sorting dominates the cost of a small plan.
  std::vector<uint64_t> keys_;
  std::span<const Item> items_;  // of the last sort()
  const PlanLimits limits_;
};

}  // namespace itif::plan
