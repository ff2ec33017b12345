// Self-learning adaptive batching: the bound follows the headroom of the last batch,
//
//   next = tokens · (1 + (aim − time) / time) = tokens · aim / time.
//
// If a batch's time is a fixed part plus a part per token, the bound does not pass the best size,
// but approaches it from either side. After each batch about (fixed part / aim) of the distance is
// left. The bound is rounded up, since small bounds would never rise otherwise.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, section 3.3.1: "increasing or decreasing the batch size in proportion to
// the current batch size, observed latency and deviation from the specified SLO". The paper gives
// no formula.
#include <algorithm>
#include <cmath>

#include "sched/batch_control.h"

namespace itif::sched {
namespace {

// Limits of the factor by which one batch changes the bound, since its time may be an outlier.
constexpr double kLeastFactor = 0.5;
constexpr double kMostFactor = 4;

class Slab final : public BatchControl {
 public:
  using BatchControl::BatchControl;

 protected:
  double adapted(const BatchRun& run, double target_ns) const noexcept override {
    const auto execute_ns = static_cast<double>(std::max<uint64_t>(run.execute_ns, 1));
    const double factor = std::clamp(target_ns / execute_ns, kLeastFactor, kMostFactor);
    const double next = run.num_tokens * factor;
    if (factor < 1) return std::min<double>(bound(), next);
    return has_no_room(run) ? std::max<double>(bound(), std::ceil(next)) : bound();
  }
};

}  // namespace

std::unique_ptr<BatchControl> make_slab(uint32_t max_tokens) {
  return std::make_unique<Slab>(max_tokens);
}

}  // namespace itif::sched
