// GSLICE's GPU utilisation efficacy: one definition for itifd, the benches and the simulator.
#pragma once

namespace itif::telemetry {

// Returns answers per second over the mean time of an answer's batch in ms, from the batch's start
// to its end (α = 1, as in the paper's tables). 0 without a time. The time that requests wait is
// not part of it: with a client that always has n requests open, latency is n over the throughput,
// whatever the device does.
//
// Source: GSLICE, section 2.1.4, "throughput / latency". Its tables take the time of an inference:
// for Alexnet under MPS, section 4.4 says 460 images/s and Table 2 says 235.75, thus 1.95 ms, which
// is less than the 2.17 ms from one of its answers to the next.
constexpr double gue(double answers_per_s, double batch_ns) noexcept {
  return batch_ns > 0 ? answers_per_s / (batch_ns * 1e-6) : 0;
}

}  // namespace itif::telemetry
