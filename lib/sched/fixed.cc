// Leaves the bound of a batch at the group's limit, whatever the objectives.
#include "sched/batch_control.h"

namespace itif::sched {
namespace {

class Fixed final : public BatchControl {
 public:
  using BatchControl::BatchControl;

 protected:
  double adapted(const BatchRun&, double) const noexcept override { return bound(); }
  bool adapts() const noexcept override { return false; }
};

}  // namespace

std::unique_ptr<BatchControl> make_fixed(uint32_t max_tokens) {
  return std::make_unique<Fixed>(max_tokens);
}

}  // namespace itif::sched
