// Deficit round robin over tenants, in tokens, by weight. While several tenants wait, each gets
// tokens in proportion to its weight, whatever the others send. The default.
//
// A turn's quantum is the tenant's weighted share of a batch among the waiting tenants. One round
// over all of them is about one batch, so a batch mixes tenants and none waits for a heavy tenant's
// backlog. A request costs at least max_tokens / max_requests: if max_requests is the limit that
// binds, requests are shared by weight instead of tokens.
//
// Source: Shreedhar and Varghese, "Efficient fair queueing using deficit round robin", SIGCOMM
// 1995.
#include <algorithm>

#include "sched/ordered_policy.h"
#include "sched/row_fill.h"

namespace itif::sched {
namespace {

// Bounds the rounds until the lightest tenant's longest request has its turn. In batches of 4,096
// tokens, a tenant with less than 1/256 of the weights thus gets more than its share.
constexpr int64_t kMinQuantumTokens = 16;

class Fair final : public QueueOrder {
 public:
  explicit Fair(uint32_t max_slots) : deficit_tokens_(max_slots) {}

  // A tenant that had no waiting request starts without credit or debt.
  void pushed(const GroupQueue& queue, request::Request& request) noexcept override {
    if (queue.of_tenant(request.slot).num_requests == 1) deficit_tokens_[request.slot] = 0;
  }
  void charge(const request::Request& request) noexcept override {
    deficit_tokens_[request.slot] -= cost_of(request);
  }
  void put_back(const GroupQueue&, request::Request& request) noexcept override {
    deficit_tokens_[request.slot] += cost_of(request);
  }
  void select(GroupQueue& queue, const ExecutorState&, const BatchLimits& limits,
              Choice& choice) noexcept override {
    min_cost_ = limits.max_tokens / std::max(1u, limits.max_requests);
    RowFill fill(limits, choice.batch);
    while (queue.num_requests() > 0) {
      const uint32_t slot = queue.active_slots().front();
      const GroupQueue::TenantQueue& tenant = queue.of_tenant(slot);
      int64_t& deficit_tokens = deficit_tokens_[slot];
      const int64_t quantum = quantum_of(queue, tenant, limits);
      deficit_tokens += quantum;
      while (tenant.active) {
        const uint32_t tokens = tenant.head->num_tokens;
        const int64_t cost = cost_of(*tenant.head);
        if (deficit_tokens < cost) break;
        // The tenant keeps its turn for the next batch: it stays first with its deficit, less the
        // quantum that the next call adds again.
        if (!fill.makes_room(tokens)) {
          deficit_tokens -= quantum;
          return;
        }
        deficit_tokens -= cost;
        fill.put(queue.pop(slot));
      }
      if (tenant.active) queue.rotate();
    }
  }
  bool isolates() const noexcept override { return true; }

 private:
  static int64_t quantum_of(const GroupQueue& queue, const GroupQueue::TenantQueue& tenant,
                            const BatchLimits& limits) noexcept {
    const uint64_t share =
        uint64_t{limits.max_tokens} * tenant.settings.weight / queue.active_weights();
    return std::max(kMinQuantumTokens, static_cast<int64_t>(share));
  }

  int64_t cost_of(const request::Request& request) const noexcept {
    return std::max(request.num_tokens, min_cost_);
  }

  std::vector<int64_t> deficit_tokens_;  // by slot
  uint32_t min_cost_ = 0;                // of a request of the last batch
};

}  // namespace

std::unique_ptr<BatchPolicy> make_fair(const PolicyOptions& options) {
  return make_ordered_policy(std::make_unique<Fair>(options.queue.max_slots), options);
}

}  // namespace itif::sched
