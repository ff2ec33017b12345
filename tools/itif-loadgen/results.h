// Measurements of a run. Each thread fills its own; they are merged at the end.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "client/types.h"

namespace itif::loadgen {

struct TargetResults {
  uint64_t sent = 0;  // measured requests given to the engine
  uint64_t answered = 0;
  uint64_t in_time = 0;  // answered by the deadline, from the intended send time, or without one
  // Σ 1 / tokens over the answers in time; requests of unknown length count 0. Source: TCB,
  // equation 9.
  double utility = 0;
  uint64_t lost = 0;  // not answered before the timeout or the end of the drain
  uint64_t refused = 0;
  std::array<uint64_t, wire::kNumStatusCodes> refused_by{};
  Histogram latency_ns;  // of answers, from the intended send time

  void add_in_time(uint32_t num_tokens) noexcept {
    ++in_time;
    if (num_tokens != 0) utility += 1.0 / num_tokens;
  }
  void merge(const TargetResults& other);
};

struct Results {
  explicit Results(size_t num_targets = 0) : targets(num_targets) {}

  std::vector<TargetResults> targets;
  uint64_t warmup_requests = 0;
  uint64_t unsent = 0;       // requests due but not sent: max_in_flight was reached until the end
  uint64_t sent_again = 0;   // requests that were sent or probed more than once
  uint64_t measured_ns = 0;  // duration of sending measured requests
  // Actual minus intended send time of the last measured request, of the latest thread.
  uint64_t last_lateness_ns = 0;
  bool was_full = false;      // requests were not sent because max_in_flight was reached
  uint64_t dropped_here = 0;  // datagrams that arrived and found this program's buffers full
  Histogram lateness_ns;      // actual minus intended send time
  Histogram server_ns;        // time in the server, as it reports
  // From a request's deadline, counted from its sending, to the receipt of its refusal: the time
  // that the server took to refuse it, and the network's. Refusals before the deadline do not
  // count.
  Histogram refusal_delay_ns;
  client::EngineStats engine;

  TargetResults total() const;
  void merge(const Results& other);
};

}  // namespace itif::loadgen
