#include "trial.h"

#include <fmt/format.h>

#include <cmath>

namespace itif::loadgen {
namespace {

constexpr double kOfferedShare = 0.99;

}  // namespace

uint64_t without_answer_in_time(const TargetResults& total) noexcept {
  return total.sent - total.in_time;
}

double loss_percent(const TargetResults& total) noexcept {
  if (total.sent == 0) return 100;
  return 100.0 * static_cast<double>(without_answer_in_time(total)) /
         static_cast<double>(total.sent);
}

double offered_share(const Results& results) noexcept {
  const auto sent = static_cast<double>(results.total().sent);
  const auto due = sent + static_cast<double>(results.unsent);
  const auto measured_ns = static_cast<double>(results.measured_ns);
  if (due == 0 || measured_ns == 0) return 0;
  return sent / due * measured_ns / (measured_ns + static_cast<double>(results.last_lateness_ns));
}

Judgement judge(const Options& options, const Results& results, double allowed_percent) {
  const TargetResults total = results.total();
  const uint64_t missing = without_answer_in_time(total);
  const auto allowed =
      static_cast<uint64_t>(std::floor(allowed_percent / 100 * static_cast<double>(total.sent)));
  const double share = offered_share(results);
  if (total.sent == 0)
    return {Verdict::kGenerator, "no request was due: raise --duration or the rate"};
  if (share < kOfferedShare && !results.was_full)
    return {
        Verdict::kGenerator,
        fmt::format("sent only {:.1f} % of the rate: use --busy or more --threads", 100 * share)};
  if (missing > allowed) {
    if (missing - allowed <= results.dropped_here)
      return {Verdict::kGenerator,
              fmt::format("{} datagrams were dropped here, in the receive buffers",
                          results.dropped_here)};
    return {Verdict::kServer, fmt::format("{} of {} without an answer in time ({:.3g} %)", missing,
                                          total.sent, loss_percent(total))};
  }
  if (share < kOfferedShare)
    return {Verdict::kGenerator,
            fmt::format("sent only {:.1f} % of the rate: {} in flight per thread, raise "
                        "--max-in-flight",
                        100 * share, options.max_in_flight)};
  return {};
}

}  // namespace itif::loadgen
