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
  return {
      .elapsed_ns = kSecond,
      .arrived = rate,
      .served = served,
      .busy_ns = static_cast<uint64_t>(1e9 * served / throughput),
      .latencies = {served, served * latency_ms * 1e6, served * latency_ms * latency_ms * 1e12}};
}

inline void add(LatencySums& sums, double ns) {
  ++sums.requests;
  sums.ns += ns;
  sums.ns_squared += ns * ns;
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
    while (!waiting_.empty() && std::max(waiting_.front(), free_ns_) < end_ns) {
      free_ns_ = std::max(waiting_.front(), free_ns_) + service_ns;
      add(o.latencies, free_ns_ - waiting_.front());
      waiting_.pop_front();
      ++o.served;
    }
    o.busy_ns = static_cast<uint64_t>(service_ns * o.served);
    control.observe(model_.id, o);
    now_ns_ = end_ns;
    return o.served > 0 ? o.latencies.ns / o.served : 0;
  }

 private:
  static constexpr size_t kMaxWaiting = 1000;

  AnalyticGroup model_;
  Random random_;
  std::deque<double> waiting_;  // arrival times
  double now_ns_ = 0, next_ns_ = 0, free_ns_ = 0;
};

// A group whose batches take fixed + per request · N on the whole device, and longer in proportion
// on a share of it. Requests of one token arrive at random. A batch takes all that wait, but no
// more than fit the aim of its time.
class BatchingGroup {
 public:
  struct Model {
    double rate;  // of arrivals, per second
    double fixed_ms, per_request_ms;
    double slo_ms;
  };
  BatchingGroup(const Model& model, uint64_t seed) : model_(model), random_(seed) {}

  // Simulates a second on `percent` of the device.
  Observation run(double percent) {
    constexpr double kNoise = 0.02;
    const double end_ns = now_ns_ + 1e9;
    Observation o{.elapsed_ns = kSecond, .share_percent = percent, .max_batch_tokens = 256};
    double busy_ns = 0;
    while (true) {
      free_ns_ = std::max(free_ns_, next_ns_ < free_ns_ || !waiting_.empty() ? 0 : next_ns_);
      if (free_ns_ >= end_ns) break;
      for (; next_ns_ <= free_ns_; next_ns_ += 1e9 * random_.exponential() / model_.rate) {
        waiting_.push_back(next_ns_);
        ++o.arrived;
      }
      const double aim_ms = kBatchAim * model_.slo_ms * percent / 100;
      const double most = std::max(1.0, (aim_ms - model_.fixed_ms) / model_.per_request_ms);
      const auto size = std::min(waiting_.size(), static_cast<size_t>(std::min(most, 256.0)));
      const auto n = static_cast<double>(size);
      const double ms = (model_.fixed_ms + model_.per_request_ms * n) * 100 / percent;
      const double batch_ns = 1e6 * ms * (1 + kNoise * random_.normal());
      free_ns_ += batch_ns;
      busy_ns += batch_ns;
      for (size_t i = 0; i < size; ++i) add(o.latencies, free_ns_ - waiting_[i]);
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(size));
      o.served += n;
      BatchSums& sums = o.batches;
      sums.batches += 1;
      sums.tokens += n;
      sums.tokens_squared += n * n;
      sums.ns += batch_ns;
      sums.ns_squared += batch_ns * batch_ns;
      sums.tokens_ns += n * batch_ns;
    }
    o.busy_ns = static_cast<uint64_t>(busy_ns);
    o.waiting = static_cast<double>(waiting_.size());
    now_ns_ = end_ns;
    return o;
  }

 private:
  Model model_;
  Random random_;
  std::deque<double> waiting_;  // arrival times
  double now_ns_ = 0, next_ns_ = 0, free_ns_ = 0;
};

}  // namespace itif::slice
