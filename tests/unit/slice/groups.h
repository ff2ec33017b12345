// Groups with invented figures: periods of a second, models by formula, and queues of random
// arrivals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "base/random.h"
#include "slice/slice_control.h"

namespace itif::slice {

constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;

// A second in which `rate` requests arrived, at a throughput and a latency.
inline Observation second(double rate, double throughput, double latency_ms) {
  const double served = std::min(rate, throughput);
  return {.elapsed_ns = kSecond,
          .arrived = rate,
          .served = served,
          .busy_ns = static_cast<uint64_t>(1e9 * served / throughput),
          .latency_ns = latency_ms * 1e6};
}

// A model whose throughput rises with the share up to a knee. Latency is batch / throughput.
struct AnalyticGroup {
  uint32_t id;
  double per_percent;  // requests per second
  double knee_percent;
  double rate;  // of arrivals, per second
  double batch = 1;

  double throughput(double percent) const { return per_percent * std::min(percent, knee_percent); }
  double latency_ms(double percent) const { return 1e3 * batch / throughput(percent); }
  void observe(SliceControl& control) const {
    const double percent = control.share_percent(id);
    control.observe(id, second(rate, throughput(percent), latency_ms(percent)));
  }
};

// Requests arrive at random, and one server takes 1 / throughput for each. The queue is bounded.
class SimulatedGroup {
 public:
  SimulatedGroup(const AnalyticGroup& model, uint64_t seed) : model_(model), random_(seed) {}

  // Simulates a second on the group's share. Returns the mean latency, ns.
  double run(SliceControl& control) {
    const double end_ns = now_ns_ + 1e9;
    const double service_ns = 1e9 / model_.throughput(control.share_percent(model_.id));
    Observation o{.elapsed_ns = kSecond};
    for (; next_ns_ < end_ns; next_ns_ += 1e9 * random_.exponential() / model_.rate) {
      ++o.arrived;
      if (waiting_.size() < kMaxWaiting) waiting_.push_back(next_ns_);
    }
    double latency_ns = 0;
    while (!waiting_.empty() && std::max(waiting_.front(), free_ns_) < end_ns) {
      free_ns_ = std::max(waiting_.front(), free_ns_) + service_ns;
      latency_ns += free_ns_ - waiting_.front();
      waiting_.pop_front();
      ++o.served;
    }
    o.busy_ns = static_cast<uint64_t>(service_ns * o.served);
    if (o.served > 0) o.latency_ns = latency_ns / o.served;
    control.observe(model_.id, o);
    now_ns_ = end_ns;
    return o.latency_ns;
  }

 private:
  static constexpr size_t kMaxWaiting = 1000;

  AnalyticGroup model_;
  Random random_;
  std::deque<double> waiting_;  // arrival times
  double now_ns_ = 0, next_ns_ = 0, free_ns_ = 0;
};

}  // namespace itif::slice
