// What a run measured. Each thread fills its own; they are merged when it has ended.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "client/types.h"

namespace itif::loadgen {

struct TargetResults {
  uint64_t sent = 0;  // measured requests handed to the engine
  uint64_t answered = 0;
  uint64_t lost = 0;  // no answer in time, or by the end of the drain
  uint64_t refused = 0;
  std::array<uint64_t, wire::kNumStatusCodes> refused_by{};
  Histogram latency_ns;  // of answers, from the intended time

  void merge(const TargetResults& other);
};

struct Results {
  explicit Results(size_t num_targets = 0) : targets(num_targets) {}

  std::vector<TargetResults> targets;
  uint64_t warmup_requests = 0;
  uint64_t unsent = 0;       // due, but there was no room to send them before the end
  uint64_t sent_again = 0;   // requests that were sent or probed for more than once
  uint64_t measured_ns = 0;  // how long measured requests were sent
  Histogram lateness_ns;     // how much later than intended requests were handed over
  Histogram server_ns;       // what the server says answers took it
  client::EngineStats engine;

  TargetResults total() const;
  void merge(const Results& other);
};

}  // namespace itif::loadgen
