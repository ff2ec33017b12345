#include "sched/ordered_policy.h"

#include <utility>

#include "sched/continuous_batching.h"
#include "sched/dynamic_batching.h"

namespace itif::sched {

std::unique_ptr<BatchPolicy> make_ordered_policy(std::unique_ptr<QueueOrder> order,
                                                 const PolicyOptions& options) {
  if (options.continuous) return std::make_unique<ContinuousBatching>(std::move(order), options);
  return std::make_unique<DynamicBatching>(std::move(order), options);
}

}  // namespace itif::sched
