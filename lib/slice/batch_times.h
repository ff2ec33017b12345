// Predicts the time of a group's batches by a line over their tokens, fixed + per token, fitted to
// batches that ran. share_demand.h needs the time of larger batches: on a smaller share more
// requests arrive while a batch runs, so the next batch is larger.
//
// The line errs to the steep side: with few batches, or batches of one size, the fixed part is 0,
// so that larger batches promise no gain.
#pragma once

#include <cstdint>
#include <optional>

namespace itif::slice {

// Sums over batches.
struct BatchSums {
  double batches = 0;
  double tokens = 0;
  double tokens_squared = 0;
  double ns = 0;
  double ns_squared = 0;
  double tokens_ns = 0;
};

class BatchTimes {
 public:
  struct Line {
    double fixed_ns = 0;
    double per_token_ns = 0;
  };

  // Adds batches, after multiplying the weight of all earlier ones by `kept`.
  void add(const BatchSums& sums, double kept) noexcept;

  // Returns the line whose slope is two standard errors above the fitted one, but at most that of
  // the line through the origin; empty: too few batches.
  std::optional<Line> line() const noexcept;
  // Returns the mean size of batches in tokens, weighted by their tokens; 0: no batches.
  double tokens_per_batch() const noexcept;
  double tokens() const noexcept { return sums_.tokens; }

 private:
  BatchSums sums_;
};

}  // namespace itif::slice
