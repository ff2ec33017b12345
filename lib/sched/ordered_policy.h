// Makes the policy of an order over the tenants' queues: dynamic_batching.h, or
// continuous_batching.h if requests join a running batch.
#pragma once

#include <memory>

#include "sched/batch_policy.h"
#include "sched/queue_order.h"

namespace itif::sched {

std::unique_ptr<BatchPolicy> make_ordered_policy(std::unique_ptr<QueueOrder> order,
                                                 const PolicyOptions& options);

}  // namespace itif::sched
