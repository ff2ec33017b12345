// TCB's Algorithm 1, "Online Deadline-Aware Scheduling Algorithm (DAS)" (section 5.2; README.md,
// "Prior work"): fills each row first with requests of high utility, then with urgent ones of
// nearly as high utility, then with the rest. The policies das and slotted_das derive from it.
//
// The utility of a request is 1/length (equation 9). With PolicySpec::weighted it is its tenant's
// weight over its length, which the paper does not have.
//
// The paper leaves open, and we decide:
// - Ties of utility go to the earlier deadline, ties of the deadline to the earlier arrival.
// - s_tk is the number of requests in the longest prefix of the utility order that fits the row. It
//   ends at the batch's request limit, too, which the paper does not have. Requests longer than the
//   row's rest are left out of that order.
// - p_tk, the number of utility-dominant requests, is ⌈η · s_tk⌉. Rounding up gives each row with
//   s_tk > 0 at least one, so their mean utility v̄ is defined. It also keeps p_tk / s_tk ≥ η,
//   which the proof of Theorem 5.1 needs.
// - "Sort by deadlines and greedily put": a request that does not fit the rest of the row is
//   skipped, and a later one may fit. Requests without a deadline come last.
// - "Greedily put rest requests": by utility, as N~_t is sorted, with the same skipping. We do this
//   whenever the deadline-aware set leaves room: with weights, a shorter request may have less
//   utility than a longer one.
// - N_t has no requests that are past their deadlines or can no longer meet them (deadline.h).
//   Such requests are refused when Algorithm 1 finds them.
// - A request longer than a row never fits. If all waiting requests are longer, the earliest gets a
//   batch of its own.
//
// One row of max_tokens makes this DAS over a token budget, for planners without rows of a fixed
// length.
//
// With PolicySpec::fair, tenants that are behind their share get their requests in before Algorithm
// 1 (fair_shares.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sched/fair_shares.h"
#include "sched/indexed_order.h"
#include "tenant/settings.h"

namespace itif::sched {

class DasRows : public IndexedOrder {
 public:
  explicit DasRows(const PolicyOptions& options);

  void pushed(const GroupQueue& queue, request::Request& request) noexcept override;
  void charge(const request::Request& request) noexcept override;
  void put_back(const GroupQueue& queue, request::Request& request) noexcept override;
  void close_gaps(const BatchLimits& limits, Choice& choice) noexcept override;
  bool fills_rows() const noexcept override { return true; }

 protected:
  // Takes requests for all rows: Algorithm 1. Does not finish the batch.
  void fill_rows(IndexFill& fill) noexcept;
  // Length of the longest request of the utility-dominant sets of the last fill_rows(). If a row
  // takes all waiting requests, all of them count as utility-dominant.
  uint32_t longest_dominant_tokens() const noexcept { return longest_dominant_tokens_; }
  // Charges the tenants for the batch, after it has been finished.
  void charge_shares(const IndexFill& fill) noexcept;

 private:
  uint32_t tree_of(const request::Request& request) const noexcept override {
    return spec_.weighted ? std::min(request.settings.weight, tenant::kMaxWeight) : 0;
  }
  double utility_of(const request::Request& request) const noexcept;
  // Returns the greatest length at which a request of the tree has at least this utility.
  uint32_t max_tokens_of(uint32_t tree, double utility) const noexcept;
  // Returns the request of the highest utility among those of at most max_tokens; nullptr: none.
  request::Request* most_useful(const WaitingIndex& index, uint32_t max_tokens) const noexcept;
  request::Request* most_urgent(const WaitingIndex& index, uint32_t max_tokens,
                                double min_utility) const noexcept;
  void take_owed(IndexFill& fill) noexcept;
  void fill_row(IndexFill& fill) noexcept;
  void take_all(IndexFill& fill) noexcept;
  double take_dominant(IndexFill& fill) noexcept;

  const PolicySpec spec_;
  std::vector<request::Request*> prefix_;  // of the utility order: the s_tk that fit the row
  uint32_t longest_dominant_tokens_ = 0;
  FairShares shares_;
};

}  // namespace itif::sched
