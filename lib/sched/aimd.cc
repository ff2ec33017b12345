// Raises a batch's bound by 1/16 of it and one token when batches fill it. Lowers it after a batch
// that exceeds its aim.
//
// Source: adaptive batching in Crankshaw et al., "Clipper: a low-latency online prediction serving
// system", NSDI 2017, section 4.3.1. Clipper adds a constant. Here the bound counts tokens, grows
// in proportion, and falls in proportion to how late a batch was.
#include <algorithm>

#include "sched/batch_control.h"

namespace itif::sched {
namespace {

class Aimd final : public BatchControl {
 public:
  using BatchControl::BatchControl;

 protected:
  double adapted(const BatchRun& run, double target_ns) const noexcept override {
    const auto execute_ns = static_cast<double>(run.execute_ns);
    if (execute_ns > target_ns) {
      // A small batch may be late because the objective is tight or the machine busy. So one late
      // batch lowers the bound to no less than half of its tokens, and to at least one token, which
      // lets one request through.
      return std::min<double>(bound(),
                              run.num_tokens * std::max(0.5, 0.9 * target_ns / execute_ns));
    }
    return has_no_room(run) ? bound() + bound() / 16 + 1.0 : bound();
  }
};

}  // namespace

std::unique_ptr<BatchControl> make_aimd(uint32_t max_tokens) {
  return std::make_unique<Aimd>(max_tokens);
}

}  // namespace itif::sched
