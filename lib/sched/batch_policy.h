// A batch policy owns a group's waiting requests and all that chooses a batch from them: order,
// fairness, urgency, objectives, the bound of a batch's size, and refusals of requests that would
// miss their deadlines. For each batch the executor calls choose(), and ran() when the batch has
// run. For each arrival, admission calls backlog_ahead(), the work that is served before it:
// requests arrive between two choices, so no Choice can answer that.
//
// A policy is one file and one name in meson.build's list: lib/sched/<name>.cc defines make_<name>.
// It reads no clock and knows no device: time and cost are arguments. A simulator therefore runs it
// unchanged.
//
// Only the policy adds and removes waiting requests. The queue holds no policy's state: a policy
// keeps its own, by slot if it concerns a tenant, and overrides entered() to see the arrivals. A
// policy with an order of its own over all requests also overrides pop() and remove().
//
// Owned by the executor's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sched/batch_control.h"
#include "sched/batch_limits.h"
#include "sched/deadline.h"
#include "sched/executor_state.h"
#include "sched/group_queue.h"
#include "sched/policy_spec.h"

namespace itif::sched {

struct PolicyOptions {
  BatchLimits limits = {};  // of every batch; rows are those of ExecutorState
  GroupQueue::Limits queue = {};
  // Continuous batching: requests join a running batch between two steps, so a batch has no
  // expected end. Only order, limits and capacity apply; only passed deadlines are refused.
  bool continuous = false;
  // Longest wait, ns, under orders that cannot tell on arrival how long a request will wait
  // (QueueOrder::knows_backlog); 0: no limit. Under other orders admission refuses on arrival.
  uint64_t max_wait_ns = 0;
  BatchControlKind batch_control = BatchControlKind::kAimd;  // unused if continuous
  PolicySpec spec = {};                                      // set by make_policy()

  // Returns how many requests can wait. take_over() also takes those that the other policy had
  // already selected from its queue.
  uint32_t max_waiting() const noexcept { return queue.max_requests + limits.max_requests; }
};

struct Refused {
  request::Request* request = nullptr;
  DeadlineMiss why = DeadlineMiss::kPassed;
};

struct Choice {
  std::vector<request::Request*> batch;
  std::vector<Refused> refused;
  uint64_t slo_ns = 0;  // the tightest objective that a tenant has set; 0: none
  // True: the policy has filled ExecutorState::rows. The batch is in the rows' order, Request::row
  // is each request's row. False: the planner fills the rows.
  bool has_rows = false;
  // Length of the slots of every row (slotted_das.cc): Request::row_slot is each request's slot.
  // 0: slots are left to the planner.
  uint32_t slot_tokens = 0;

  void reserve(const PolicyOptions& options) {
    batch.reserve(options.limits.max_requests);
    refused.reserve(options.max_waiting());
  }
  void clear() noexcept {
    batch.clear();
    refused.clear();
    slo_ns = 0;
    has_rows = false;
    slot_tokens = 0;
  }
};

class BatchPolicy {
 public:
  explicit BatchPolicy(const GroupQueue::Limits& limits) : queue_(limits) {}
  virtual ~BatchPolicy() = default;

  const GroupQueue& queue() const noexcept { return queue_; }
  // Returns false if the tenant's queue has no room.
  bool push(request::Request* request, uint64_t now_ns, const BatchCosts& costs) noexcept;
  // Takes over all requests that wait in another policy of the same options, each tenant's in their
  // order.
  void take_over(BatchPolicy& other, uint64_t now_ns, const BatchCosts& costs) noexcept;
  // Returns the work in the queue that is served before a request of the tenant that arrives now;
  // none if the order cannot tell.
  virtual GroupQueue::Backlog backlog_ahead(uint32_t slot) const noexcept {
    return queue_.backlog_of(slot);
  }
  // Number of requests that wait, in the queue or already selected from it.
  virtual uint32_t num_waiting() const noexcept { return queue_.num_requests(); }
  // Removes and returns any request, for an executor that gives up; nullptr: none waits.
  virtual request::Request* pop() noexcept;
  // Removes requests from the queue and puts them into `choice`, whose contents it replaces: a
  // batch of at most max_requests, and the refused requests. The batch stays within the limits, but
  // a request of more tokens than a row or a batch takes gets a batch of its own. Chooses or
  // refuses at least one request, unless none waits or the executor has no capacity for the next.
  // Allocates nothing once `choice` has reserved room.
  virtual void choose(const ExecutorState& state, Choice& choice) noexcept = 0;
  // Learns from a batch that ran. Batches may be chosen before earlier ones have run.
  virtual void ran(const BatchRun&) noexcept {}
  // Returns the verdict of the last batches on the group's share of its device (batch_control.h).
  virtual slice::Ask share_ask() const noexcept { return slice::Ask::kNothing; }

 protected:
  // Called after the queue has taken in a request.
  virtual void entered(request::Request&, uint64_t /*now_ns*/, const BatchCosts&) noexcept {}
  // Removes a waiting request from the queue, and from the policy's own order.
  virtual void remove(request::Request* request) noexcept { queue_.remove(request); }
  // For choose(). Removes the waiting requests that cannot meet their deadlines even if the next
  // batch runs them alone, by earliest deadline, and appends them to `refused`. Stops at the first
  // that can.
  void refuse_infeasible(const ExecutorState& state, std::vector<Refused>& refused) noexcept;
  // For choose(). Refuses the requests that have waited longer than max_wait_ns; 0: none.
  void refuse_overdue(uint64_t now_ns, uint64_t max_wait_ns,
                      std::vector<Refused>& refused) noexcept;
  // For the end of choose(). Refuses the waiting requests that the chosen batch makes late, so that
  // they need not wait for its end to learn it.
  void refuse_behind(const ExecutorState& state, Choice& choice) noexcept;

  GroupQueue queue_;
};

// `spec`: a policy's name and settings (policy_spec.h). Errors: those of parse_policy_spec().
Result<std::unique_ptr<BatchPolicy>> make_policy(std::string_view spec,
                                                 const PolicyOptions& options);

}  // namespace itif::sched
