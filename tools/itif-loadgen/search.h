// Finds the highest rate that a server answers without loss (NDR, the no-drop rate), or with at
// most a given loss (PDR, the partial-drop rate). Pure: the caller runs the trials.
// Source: RFC 2544 section 26.1 (throughput), by binary search.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>

namespace itif::loadgen {

enum class Verdict : uint8_t {
  kPassed,
  kServer,       // more requests were lost than allowed
  kGenerator,    // this program could not send at the rate, or lost the answers itself
  kInterrupted,  // the trial did not end
};

// The cause that kept a search from a higher rate.
enum class LimitedBy : uint8_t { kServer, kGenerator, kHighest, kInterrupted };
const char* limited_by_name(LimitedBy limit);

struct SearchBounds {
  double start = 100;  // requests/s of the first trial
  double highest = std::numeric_limits<double>::infinity();
  double lowest = 0.1;           // a search that finds no rate above it ends with 0
  double precision_percent = 1;  // of the rate found
};

struct Found {
  double rate = 0;  // requests/s of the fastest trial that passed; 0: none did
  LimitedBy limited_by = LimitedBy::kServer;
};

// Doubles or halves the rate until one trial passes and one at most twice as fast fails, then
// bisects. The result differs from the lowest failed rate by at most the precision. A trial that
// this program limited is repeated once, because something may have stalled the machine. If the
// program limits it again, it bounds the search as a failed one does, and is named in the result.
// REQUIRES: 0 < lowest <= start <= highest; 0 < precision_percent.
Found find_rate(const SearchBounds& bounds, const std::function<Verdict(double)>& trial);

// Median and range of the rates that repeated searches found.
struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
  // (most - least) / median, in percent; 0 if the median is 0.
  double percent() const noexcept { return median > 0 ? 100 * (most - least) / median : 0; }
};
// REQUIRES: at least one rate.
Spread spread_of(std::span<const double> rates);

}  // namespace itif::loadgen
