#include "search.h"

#include <algorithm>
#include <vector>

namespace itif::loadgen {
namespace {

LimitedBy limit_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGenerator: return LimitedBy::kGenerator;
    case Verdict::kInterrupted: return LimitedBy::kInterrupted;
    case Verdict::kPassed:
    case Verdict::kServer: break;
  }
  return LimitedBy::kServer;
}

}  // namespace

const char* limited_by_name(LimitedBy limit) {
  switch (limit) {
    case LimitedBy::kServer: return "server";
    case LimitedBy::kGenerator: return "generator";
    case LimitedBy::kHighest: return "rate";
    case LimitedBy::kInterrupted: return "interrupt";
  }
  return "?";
}

Found find_rate(const SearchBounds& bounds, const std::function<Verdict(double)>& trial) {
  double passed = 0;
  double failed = 0;  // 0: no trial has failed
  Found found;
  for (double rate = bounds.start;;) {
    Verdict verdict = trial(rate);
    if (verdict == Verdict::kGenerator) verdict = trial(rate);
    if (verdict == Verdict::kPassed) {
      found.rate = passed = rate;
      if (rate >= bounds.highest) return {.rate = rate, .limited_by = LimitedBy::kHighest};
    } else {
      failed = rate;
      found.limited_by = limit_of(verdict);
      if (verdict == Verdict::kInterrupted) return found;
    }
    if (failed == 0) {
      rate = std::min(2 * passed, bounds.highest);
    } else if (passed == 0) {
      if (failed <= bounds.lowest) return found;
      rate = std::max(failed / 2, bounds.lowest);
    } else {
      if (failed - passed <= failed * bounds.precision_percent / 100) return found;
      rate = (passed + failed) / 2;
    }
  }
}

Spread spread_of(std::span<const double> rates) {
  std::vector<double> sorted(rates.begin(), rates.end());
  std::ranges::sort(sorted);
  const size_t middle = sorted.size() / 2;
  const double median =
      sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return {.median = median, .least = sorted.front(), .most = sorted.back()};
}

}  // namespace itif::loadgen
