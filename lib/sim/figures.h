// The measurements of a simulated run, as structs, as a table and as JSON.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "client/types.h"
#include "sim/link.h"
#include "sim/scenario.h"

namespace itif::sim {

// One tenant's measured requests.
struct TenantResults {
  uint64_t sent = 0;  // = answered + refused + lost
  uint64_t answered = 0, refused = 0, lost = 0;
  uint64_t in_time = 0;  // answered within their deadline; without deadlines all that are answered
  double utility = 0;    // Σ 1 / tokens of those (TCB, equation 9)
  uint64_t tokens = 0;   // of answered requests
  uint64_t output_tokens = 0;  // of their answers; 0: the model does not generate
  std::array<uint64_t, wire::kNumStatusCodes> refused_by{};
  Histogram latency_ns;  // of answers, from the arrival to the client's receipt

  void merge(const TenantResults& other);
};

// A group's figures of one period, in scenarios that have several groups or divide the device.
struct GroupInterval {
  uint64_t sent = 0, answered = 0;
  uint64_t missed = 0;                       // answered later than the tenant's objective
  uint64_t latency_ns = 0;                   // Σ over the answers
  double share_percent = 0;                  // of the device, at the end of the period
  uint64_t batches = 0, batch_requests = 0;  // that ended in it, and their requests

  double mean_latency_ms() const {
    return answered > 0 ? static_cast<double>(latency_ns) / static_cast<double>(answered) / 1e6 : 0;
  }
  double mean_batch_requests() const {
    return batches > 0 ? static_cast<double>(batch_requests) / static_cast<double>(batches) : 0;
  }
};
// A batch that ended.
struct BatchEnd {
  uint64_t at_ns = 0;  // from the start
  uint32_t num_requests = 0;
};
struct GroupResults {
  std::string name;
  std::vector<GroupInterval> intervals;  // from the start, warm-up included
  std::vector<BatchEnd> batches = {};    // with SimulationOptions::notes_batches, in order
  // From the launch of a request's batch to its end, in the whole run; with waits for other groups'
  // batches if the device is not divided.
  double mean_execute_ms = 0;
};

struct Results {
  std::vector<TenantResults> tenants;  // of all groups, in order
  std::vector<GroupResults> groups;
  uint64_t measured_ns = 0;   // from the end of the warm-up to the last arrival or outcome
  uint64_t simulated_ns = 0;  // the whole run
  uint64_t requests = 0;      // in the whole run
  // The device, in the whole run.
  uint64_t busy_ns = 0, batches = 0, batch_requests = 0, rows = 0, tokens = 0;
  uint64_t log_hash = 0, log_events = 0;
  // With Scenario::passes_marks. Without: generated answers of another length than they must have.
  uint64_t wrong_answers = 0;
  bool generates = false;
  uint64_t interval_ns = 0;  // of the time line; 0: there is none
  LinkFigures link;
  client::EngineStats engine;

  // Returns the group's period at a time from the start; null: the scenario has no time line.
  GroupInterval* interval_at(size_t group, uint64_t at_ns);

  TenantResults total() const;
  double seconds() const { return static_cast<double>(measured_ns) / 1e9; }
  double per_second(double count) const { return measured_ns > 0 ? count / seconds() : 0; }
  double device_use() const;  // share of the time in which a batch ran
  double padding() const;     // share of computed rows that no request owns
  double batch_size() const;  // requests per batch
};

std::string results_table(const Scenario& scenario, const Results& results);
nlohmann::ordered_json results_json(const Scenario& scenario, const Results& results);

}  // namespace itif::sim
