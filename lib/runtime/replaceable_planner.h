// The planner of an executor's batches, which control may replace while the executor runs.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "plan/planner.h"

namespace itif::runtime {

class ReplaceablePlanner {
 public:
  // REQUIRES: `planner` was made for `limits`.
  ReplaceablePlanner(std::unique_ptr<plan::Planner> planner, const plan::PlanLimits& limits)
      : limits_(limits), planner_(std::move(planner)) {}
  ~ReplaceablePlanner() { delete next_.load(); }
  ReplaceablePlanner(const ReplaceablePlanner&) = delete;
  ReplaceablePlanner& operator=(const ReplaceablePlanner&) = delete;

  const plan::PlanLimits& limits() const noexcept { return limits_; }
  // Takes effect with the next batch. Any thread. REQUIRES: `planner` was made for limits().
  void replace(std::unique_ptr<plan::Planner> planner) noexcept {
    delete next_.exchange(planner.release(), std::memory_order_acq_rel);
  }
  // Returns the planner of the next batch, valid until the next call. The executor's thread.
  plan::Planner& take() noexcept {
    if (plan::Planner* next = next_.exchange(nullptr, std::memory_order_acq_rel))
      planner_.reset(next);
    return *planner_;
  }

 private:
  const plan::PlanLimits limits_;
  std::unique_ptr<plan::Planner> planner_;
  std::atomic<plan::Planner*> next_{nullptr};  // owned
};

}  // namespace itif::runtime
