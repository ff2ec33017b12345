// Injects faults into simulations, by a seed: datagrams are lost, duplicated, reordered and
// damaged, the device fails, tenants are removed and added, and the appliance restarts with its
// registry. A client with a wrong key sends all the while. The seed also chooses batch policy and
// planner. The models of every fourth seed generate.
//
// Each run checks these invariants, and reports one that does not hold:
//
// - Every request has exactly one outcome, and the sums of the client's and the worker's counters
//   are exact: each received datagram was forwarded, held or dropped for a reason.
// - Every packet buffer is free, nothing is held or reassembled, and the device's memory is that of
//   the group without tenants once they have left. No K/V block is used when no sequence runs.
// - Every answer was computed from its request's tokens with its tenant's weights alone
//   (device/sim/row_marks.h), also in slots that had another tenant before. No request with a wrong
//   key is answered. A generated answer is a function of its source and its tenant's weights, and
//   has as many tokens as its source asks for.
#pragma once

#include <cstdint>
#include <cstdio>

#include "base/error.h"
#include "sim/dpdk_nic.h"
#include "sim/scenario.h"

namespace itif::sim {

// Counts of a run's events, so that a test sees that the faults occurred.
struct FaultFigures {
  uint64_t requests = 0, answered = 0, refused = 0, lost = 0;
  uint64_t generated = 0;  // tokens of answers
  uint64_t datagrams_lost = 0, datagrams_damaged = 0;
  uint64_t device_faults = 0, tenants_removed = 0, tenants_added = 0, restarts = 0;
  uint64_t log_hash = 0;

  // Adds another seed's counts. The hash becomes that of the other.
  void add(const FaultFigures& other) noexcept;
};

// Returns the scenario of a seed: a small model on a large load, so that many batches of several
// tenants run in little time. Over the seeds every batch policy runs with every planner that the
// model can use.
Scenario faults_scenario(uint64_t seed);

// Runs one seed. `log` may be null. Errors: kInternal, the invariant that does not hold.
Result<FaultFigures> run_faults(uint64_t seed, Nic& nic, std::FILE* log = nullptr);

}  // namespace itif::sim
