#include "slice/share_demand.h"

#include <algorithm>
#include <cmath>

namespace itif::slice {
namespace {

// A shortfall is forgotten once the arrival rate is below this part of the rate at that time.
constexpr double kRememberedRate = 0.75;
// A group keeps this many thresholds above the share at which it fell short. In an hour of Poisson
// arrivals at one rate, 2 led to 1.5 times as many changes of share, and 4 to hardly fewer.
constexpr double kMarginThresholds = 3;
// A group with a surplus (kSurplusThresholds), or one that stays short (kShortThresholds), asks for
// another share only if that differs by this many thresholds. With 2 for kShortThresholds, the
// noise of 100 arrivals a second moves the shares of an overloaded device every minute.
constexpr double kSurplusThresholds = 2;
constexpr double kShortThresholds = 4;
constexpr double kDeviations = 2;  // above the mean: 95 % of exponential latencies are below
// The line of batch times is trusted up to batches this many times as large as those that ran.
constexpr double kTrustedGrowth = 4;

}  // namespace

ShareDemand::ShareDemand(const DemandOptions& options, double knee_percent,
                         uint64_t slo_ns) noexcept
    : options_(options), knee_percent_(knee_percent), slo_ns_(slo_ns) {
  const double first = knee_percent > 0 ? knee_percent : options.first_percent;
  percent_ = share_percent_ = std::clamp(first, options.least_percent, most_percent());
}

double ShareDemand::most_percent() const noexcept {
  const double most =
      knee_percent_ > 0 ? std::min(knee_percent_, options_.most_percent) : options_.most_percent;
  return std::max(most, options_.least_percent);
}

void ShareDemand::set_knee(double knee_percent) noexcept {
  knee_percent_ = knee_percent;
  percent_ = std::min(percent_, most_percent());
}

void ShareDemand::changed(double share_percent) noexcept {
  share_percent_ = share_percent;
  served_ = busy_ns_ = busy_percent_ns_ = 0;
  latencies_ = {};
  batch_times_ = {};
  num_observations_ = num_surpluses_ = num_starved_ = 0;
  drains_ = slo_ns_ > 0 && waiting_ > calm_waiting();
  least_waiting_ = waiting_;
  num_undrained_ = 0;
}

double ShareDemand::calm_waiting() const noexcept {
  return elapsed_ns_ > 0 ? arrival_rate() * static_cast<double>(slo_ns_) / 2 : 0;
}

void ShareDemand::drain(double waiting) noexcept {
  waiting_ = waiting;
  if (!drains_) return;
  num_undrained_ = waiting < least_waiting_ ? 0 : num_undrained_ + 1;
  least_waiting_ = std::min(least_waiting_, waiting);
  drains_ = waiting > calm_waiting() && num_undrained_ < options_.num_observations;
}

double ShareDemand::late_latency_ns() const noexcept {
  if (latencies_.requests <= 0) return 0;
  const double mean_ns = latencies_.ns / latencies_.requests;
  const double variance = latencies_.ns_squared / latencies_.requests - mean_ns * mean_ns;
  return mean_ns + kDeviations * std::sqrt(std::max(0.0, variance));
}

ShareDemand::Residuals ShareDemand::residuals(const Observation& last) const noexcept {
  const double slo_ns = static_cast<double>(slo_ns_);
  const double throughput = served_ / busy_ns_;
  Residuals seen = {.latency = slo_ns_ == 0 ? 1 : (slo_ns - late_latency_ns()) / slo_ns,
                    .throughput = (throughput - arrival_rate()) / arrival_rate(),
                    .token_load = 0};
  if (drains_) seen.latency = 0;
  // Without an objective, nothing bounds the latency that larger batches bring.
  const auto line = slo_ns_ == 0 ? std::nullopt : batch_times_.line();
  if (!line) return seen;
  const double token_rate = arrival_rate() * batch_times_.tokens() / served_;
  const double most_tokens =
      std::min(last.max_batch_tokens, kTrustedGrowth * batch_times_.tokens_per_batch());
  seen.token_load = token_rate * line->per_token_ns;
  const double batch_load =
      line->fixed_ns * std::max(token_rate / most_tokens, 1 / (kBatchAim * slo_ns));
  seen.throughput = std::max(seen.throughput, 1 / (seen.token_load + batch_load) - 1);
  return seen;
}

void ShareDemand::observe(const Observation& o) noexcept {
  if (o.elapsed_ns == 0 || (o.arrived <= 0 && o.served <= 0 && o.waiting <= 0)) return;
  num_starved_ = o.served > 0 || o.waiting <= 0 ? 0 : num_starved_ + 1;
  const double elapsed_ns = static_cast<double>(o.elapsed_ns);
  const double busy_ns = static_cast<double>(o.busy_ns);
  const double kept = std::exp(-elapsed_ns / static_cast<double>(options_.average_ns));
  const auto add = [kept](double& sum, double term) { sum = sum * kept + term; };
  add(arrived_, o.arrived);
  add(elapsed_ns_, elapsed_ns);
  add(served_, o.served);
  const LatencySums latencies = drains_ ? LatencySums{} : o.latencies;
  add(latencies_.requests, latencies.requests);
  add(latencies_.ns, latencies.ns);
  add(latencies_.ns_squared, latencies.ns_squared);
  drain(o.waiting);
  add(busy_ns_, busy_ns);
  add(busy_percent_ns_, busy_ns * (o.share_percent > 0 ? o.share_percent : share_percent_));
  batch_times_.add(o.batches, kept);
  ++num_observations_;
  if (num_starved_ > 0) return observe_starved();
  if (arrived_ <= 0 || served_ <= 0 || busy_ns_ <= 0) return;
  if (num_observations_ < options_.num_observations && o.ask != Ask::kMore) return;

  const Residuals now = residuals(o);
  const double at_percent = std::min(busy_percent_ns_ / busy_ns_, most_percent());
  const double threshold = options_.threshold;
  if (now.latency < -threshold || now.throughput < -threshold || o.ask == Ask::kMore) {
    num_surpluses_ = 0;
    return grow(now, at_percent, o.ask);
  }
  const bool has_surplus = now.latency > threshold && now.throughput > threshold;
  const double wanted = has_surplus ? enough_percent(now, at_percent) : at_percent;
  const bool may_shrink = wanted < at_percent * (1 - kSurplusThresholds * threshold);
  num_surpluses_ = may_shrink ? num_surpluses_ + 1 : 0;
  const bool is_lasting = num_surpluses_ >= options_.num_observations || o.ask == Ask::kLess;
  if (!may_shrink) {
    percent_ = std::max(at_percent, options_.least_percent);
    return;
  }
  // at_percent may include lent parts, which the group does not need. So the demand changes only
  // once the surplus has lasted, and only if it differs by several thresholds.
  const bool differs = std::abs(wanted - percent_) > kSurplusThresholds * threshold * percent_;
  if (is_lasting && differs) percent_ = std::max(wanted, options_.least_percent);
}

void ShareDemand::observe_starved() noexcept {
  if (num_starved_ < options_.num_observations) return;
  num_starved_ = num_surpluses_ = 0;
  const double now_percent = std::max(share_percent_, percent_);
  percent_ = std::clamp(2 * now_percent, options_.least_percent, most_percent());
}

void ShareDemand::grow(const Residuals& now, double at_percent, Ask ask) noexcept {
  const double threshold = options_.threshold;
  const bool is_late = now.latency < -threshold;
  double factor = ask == Ask::kMore ? 1 + threshold : 1;
  // Throughput is in proportion to the share, which grows by arrival rate / throughput.
  if (now.throughput < -threshold) factor = std::max(factor, 1 / (1 + now.throughput));
  // 1 + (latency − objective) / latency: at most doubles the share, since a queue in front of an
  // overloaded group makes latencies of any length.
  if (is_late) factor = std::max(factor, 1 - now.latency / (1 - now.latency));
  double wanted = at_percent * factor * (1 + surplus());
  // Being given less must not lower the demand of a group that is late. Else, of two late groups,
  // the one of larger weight would get more with each division.
  if (is_late && share_percent_ < percent_) wanted = std::max(wanted, percent_);
  const bool was_short = percent_ > share_percent_ * (1 + threshold);
  const bool is_similar = std::abs(wanted - percent_) < kShortThresholds * threshold * percent_;
  if (!was_short || !is_similar)
    percent_ = std::clamp(wanted, options_.least_percent, most_percent());

  if (arrival_rate() < kRememberedRate * short_rate_) short_percent_ = 0;
  if (at_percent < short_percent_) return;
  short_percent_ = at_percent;
  short_rate_ = arrival_rate();
}

double ShareDemand::enough_percent(const Residuals& now, double at_percent) noexcept {
  if (arrival_rate() < kRememberedRate * short_rate_ || at_percent <= short_percent_)
    short_percent_ = short_rate_ = 0;
  // The least part f of the share that still serves the load, and that keeps the objective. Latency
  // is taken to be inverse to f − load: batches that follow each other take fixed / (f − load).
  const double latency_part = now.token_load + (1 - now.token_load) * (1 - now.latency);
  const double factor = std::max(1 / (1 + now.throughput), latency_part);
  const double enough = at_percent * factor * (1 + surplus());
  return std::max(enough, short_percent_ * (1 + kMarginThresholds * options_.threshold));
}

}  // namespace itif::slice
