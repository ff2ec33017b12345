// The base of orders over all waiting requests, which it keeps in an index: sjf, edf, das and
// slotted_das. Each selection first refuses requests that would miss their deadlines, by earliest
// deadline, up to the first that would not.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sched/index_fill.h"
#include "sched/queue_order.h"

namespace itif::sched {

class IndexedOrder : public QueueOrder {
 public:
  explicit IndexedOrder(const PolicyOptions& options, uint32_t num_trees = 1)
      : index_(options.max_waiting(), num_trees) {
    late_.reserve(options.max_waiting());
  }

  void pushed(const GroupQueue&, request::Request& request) noexcept override {
    index_.insert(request, tree_of(request));
  }
  void removed(const request::Request& request) noexcept override { index_.erase(request); }
  void select(GroupQueue& queue, const ExecutorState& state, const BatchLimits& limits,
              Choice& choice) noexcept override {
    IndexFill fill(queue, index_, state, limits, late_, choice);
    for (const uint32_t tree : index_.active_trees()) {
      const auto earliest = [&] { return index_.earliest(WaitingIndex::kAnyLength, tree); };
      // nullptr: the tree is empty, so the list of this loop has changed.
      if (fill.in_time(earliest) == nullptr) break;
    }
    this->fill(fill);
    if (fill.batch_is_empty() && fill.readmit_skipped()) this->fill(fill);
  }
  // Unknown: a request that arrives may be the next one.
  GroupQueue::Backlog backlog_ahead(const GroupQueue&, uint32_t) const noexcept override {
    return {};
  }
  bool knows_backlog() const noexcept override { return false; }
  bool isolates() const noexcept override { return false; }
  // Number of nodes of the index visited so far: the work done, for tests.
  uint64_t num_visits() const noexcept { return index_.num_visits(); }

 protected:
  // Takes requests into the batch and finishes it.
  virtual void fill(IndexFill& fill) noexcept = 0;
  // Returns the tree of WaitingIndex for a request that arrives.
  virtual uint32_t tree_of(const request::Request&) const noexcept { return 0; }

 private:
  WaitingIndex index_;
  std::vector<request::Request*> late_;  // of IndexFill
};

// Each makes the order of the policy <name>, which make_<name>() wraps in a policy
// (ordered_policy.h).
std::unique_ptr<IndexedOrder> make_das_order(const PolicyOptions& options);
std::unique_ptr<IndexedOrder> make_edf_order(const PolicyOptions& options);
std::unique_ptr<IndexedOrder> make_sjf_order(const PolicyOptions& options);
std::unique_ptr<IndexedOrder> make_slotted_das_order(const PolicyOptions& options);

}  // namespace itif::sched
