// The share of the device that a group asks for: GSLICE's tuning of a group's resources. One object
// per group.
//
// Two residual capacities decide, both in relation to what is needed: that of latency (objective −
// latency) and that of throughput (throughput − arrival rate). If either is negative, the group
// asks for more, in proportion. If both are positive, it asks for less. Within a threshold of 5 %
// it keeps its share. A group without an objective has no residual of latency: throughput decides.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, sections 3.2.1 to 3.2.3 and Algorithm 1. Five things differ from the
// algorithm as printed:
// 1. Its early return tests "residual < threshold", which is also true for large negative
//    residuals, so an overloaded group would keep its share. Section 3.2.2 describes a threshold
//    against variability. Magnitudes are therefore compared.
// 2. A group grows by the larger shortfall. As printed, the larger magnitude counts: a group whose
//    latency is 6 % too high and whose throughput is three times the arrival rate would grow by two
//    thirds.
// 3. A group shrinks by the smaller surplus, in relation to the objective. As printed, it shrinks
//    by the larger, in relation to the latency: at less than half of the objective, the new share
//    would be negative.
// 4. The new share leaves a surplus, 10 %. Without any, requests would queue without bound. With
//    only the threshold's 5 %, noise of Poisson arrivals is soon a shortfall again. A group without
//    an objective gets a surplus of 40 %: no latency would ever ask for more. Beside an overloaded
//    group, BERT-base at 7 requests/s on 25 % of one CPU, of which it used 22 %, had a p99 of 1.4 s
//    instead of 55 ms.
// 5. Latency is the mean and two standard deviations. If only the mean met the objective, as in the
//    paper, a third of the requests would be late.
//
// Three rules keep a constant load from moving the share for ever:
// - A group shrinks only after several observations in a row that allow it.
// - It remembers the share at which it fell short, and keeps a margin above it until the arrival
//   rate falls by a quarter, or the group has a surplus there.
// - A group that has a surplus, or stays short, asks for another share only if that differs by
//   several thresholds.
//
// On a smaller share a group computes larger batches, which cost less per token. A group whose
// batches run back to back serves just what arrives, whatever its share, so its throughput alone
// would never show a surplus. Under an objective the times of its batches tell how small a share is
// enough (residuals()). This is not in the paper, whose groups have batches of one size.
//
// A group in which requests wait, and none is served for num_observations in a row, is late by any
// measure: it asks for twice its share.
//
// Reads no clock. One owner thread. Allocates nothing.
#pragma once

#include <cstdint>

#include "slice/ask.h"
#include "slice/batch_times.h"

namespace itif::slice {

struct DemandOptions {
  double least_percent = 1;
  double most_percent = 100;
  double first_percent = 30;  // of a group whose knee is unknown
  // The part by which latency and throughput may differ from their aims without consequence.
  double threshold = 0.05;
  // The part of throughput and latency that a new share leaves free: with an objective, and
  // without one.
  double surplus = 0.1;
  double surplus_without_objective = 0.4;
  uint64_t average_ns = 5'000'000'000;  // an observation's weight falls to 1/e after this
  uint32_t num_observations = 5;  // after a change of share, before the next decision; and in a row
                                  // before the group shrinks
};

// Sums over answered requests, of the latency that the objective bounds.
struct LatencySums {
  double requests = 0;
  double ns = 0;
  double ns_squared = 0;
};

// A group in a period.
struct Observation {
  uint64_t elapsed_ns = 0;  // length of the period
  // Work that arrived, and work that was done: requests or tokens, but the same in all periods.
  double arrived = 0;
  double served = 0;
  double waiting = 0;  // work that waits, or is being done, at the end of the period
  // Time in which the group computed, and gaps between batches that it cannot use. Algorithm 1's
  // throughput is served / busy_ns, the rate that the group can reach. served / elapsed_ns cannot
  // stand for it, because it does not exceed the rate of arrivals for long.
  uint64_t busy_ns = 0;
  LatencySums latencies = {};
  // The share that the group computed on, lent parts included; 0: its own share.
  double share_percent = 0;
  Ask ask = Ask::kNothing;  // of sched/batch_control.h
  // The batches that ran; without any, their times are unknown.
  BatchSums batches = {};
  double max_batch_tokens = 0;  // of one batch
};

class ShareDemand {
 public:
  // `knee_percent`: the share past which throughput hardly rises; 0: unknown. The group starts
  // there, and never asks for more. `slo_ns`: the objective; 0: none.
  ShareDemand(const DemandOptions& options, double knee_percent, uint64_t slo_ns) noexcept;

  void set_knee(double knee_percent) noexcept;
  void set_objective(uint64_t slo_ns) noexcept { slo_ns_ = slo_ns; }

  uint64_t slo_ns() const noexcept { return slo_ns_; }
  // Returns the share that the group asks for, in percent.
  double percent() const noexcept { return percent_; }
  // Notes that the group computes on `share_percent` from now on. Latency and throughput before it
  // are forgotten.
  void changed(double share_percent) noexcept;
  // Notes a period, and decides. A period without work changes nothing.
  void observe(const Observation& observation) noexcept;

 private:
  struct Residuals {
    // (objective − latency) / objective; without an objective 1; while a queue drains 0.
    double latency;
    double throughput;  // (throughput − arrival rate) / arrival rate
    // The part of the share on which tokens alone, without the fixed cost of batches, keep the
    // group computing; 0: unknown.
    double token_load;
  };

  double most_percent() const noexcept;
  // Returns the mean latency plus two standard deviations, ns; 0: no request was answered.
  double late_latency_ns() const noexcept;
  // Returns the number of waiting requests that are served in half of the objective.
  double calm_waiting() const noexcept;
  // Notes how many wait, and ends the draining once they are few, or do not become fewer.
  void drain(double waiting) noexcept;
  double surplus() const noexcept {
    return slo_ns_ == 0 ? options_.surplus_without_objective : options_.surplus;
  }
  double arrival_rate() const noexcept { return arrived_ / elapsed_ns_; }  // per ns
  // Throughput is that of the largest batches that the group may compute and whose time
  // batch_times_ can predict. On the part f of its share, batches of N tokens that run back to back
  // take T = (fixed + per_token · N) / f, and N = rate · T. So f = load + fixed · rate / N, where
  // load = rate · per_token. The group's limit bounds N. The aim bounds T: for T = aim, f = load +
  // fixed / aim.
  Residuals residuals(const Observation& last) const noexcept;
  // Asks for more if nothing has been served for long enough.
  void observe_starved() noexcept;
  // `at_percent`: the share on which the residuals were observed.
  void grow(const Residuals& residuals, double at_percent, Ask ask) noexcept;
  // Returns the share that is enough for a group with a surplus of both.
  double enough_percent(const Residuals& residuals, double at_percent) noexcept;

  DemandOptions options_;
  double knee_percent_;
  uint64_t slo_ns_;
  double percent_;        // asked for
  double share_percent_;  // given

  // Decayed sums over all periods.
  double arrived_ = 0;
  double elapsed_ns_ = 0;
  // Decayed sums over the periods since the last change of share.
  double served_ = 0;
  LatencySums latencies_;
  double busy_ns_ = 0;
  double busy_percent_ns_ = 0;  // Σ share · busy time
  BatchTimes batch_times_;
  uint32_t num_observations_ = 0;
  uint32_t num_surpluses_ = 0;  // in a row
  uint32_t num_starved_ = 0;    // observations in a row with work, and none done

  // True while a queue from before the last change of share is served: latency then says nothing
  // about this share.
  bool drains_ = false;
  double waiting_ = 0;          // at the end of the last observation
  double least_waiting_ = 0;    // while it drains
  uint32_t num_undrained_ = 0;  // observations since that was reached

  double short_percent_ = 0;  // the largest share at which the group fell short; 0: none
  double short_rate_ = 0;     // arrival rate at that time
};

}  // namespace itif::slice
