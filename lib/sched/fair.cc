// Deficit round robin over tenants, in tokens, by weight: while several tenants wait, each gets tokens
// in proportion to its weight, whatever the others send. The default.
//
// Source: Shreedhar and Varghese, "Efficient fair queueing using deficit round robin", SIGCOMM 1995.
// The quantum is 64 tokens a unit of weight: small against a batch, so that a batch mixes tenants.
#include <algorithm>

#include "sched/policies.h"

namespace itif::sched {
namespace {

constexpr int64_t kQuantumTokens = 64;

class Fair final : public Scheduler {
 public:
  void select(GroupQueue& queue, const BatchLimits& limits, uint64_t,
              std::vector<request::Request*>& batch) noexcept override {
    batch.clear();
    uint64_t room = limits.max_tokens;
    while (queue.num_requests() > 0 && batch.size() < limits.max_requests) {
      const uint32_t slot = queue.active_slots().front();
      GroupQueue::Lane& lane = queue.lane(slot);
      lane.deficit_tokens += kQuantumTokens * lane.weight;
      while (lane.active && lane.deficit_tokens >= lane.head->num_tokens &&
             batch.size() < limits.max_requests) {
        const uint32_t tokens = lane.head->num_tokens;
        // The turn is kept for the next batch: the lane stays first with what it has saved, less the
        // quantum that it will be given again.
        if (tokens > room) {
          lane.deficit_tokens -= kQuantumTokens * lane.weight;
          return;
        }
        room -= tokens;
        lane.deficit_tokens -= tokens;
        batch.push_back(queue.pop(slot));
      }
      if (lane.active) queue.rotate();
    }
  }
};

}  // namespace

std::unique_ptr<Scheduler> make_fair() {
  return std::make_unique<Fair>();
}

}  // namespace itif::sched
