// Makes a policy from an order over the tenants' queues: dynamic_batching.h, or
// continuous_batching.h if PolicyOptions::continuous.
#pragma once

#include <memory>

#include "sched/batch_policy.h"
#include "sched/queue_order.h"

namespace itif::sched {

std::unique_ptr<BatchPolicy> make_ordered_policy(std::unique_ptr<QueueOrder> order,
                                                 const PolicyOptions& options);

}  // namespace itif::sched
