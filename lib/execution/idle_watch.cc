#include "execution/idle_watch.h"

#include <utility>

namespace itif::execution {

bool IdleWatch::look(const GroupStage& stage, uint64_t now_ns) noexcept {
  const telemetry::ExecutorCounters& counters = stage.counters();
  const uint64_t num_batches = counters.batches.read();
  if (std::exchange(num_batches_, num_batches) != num_batches || counters.queued.read() > 0 ||
      stage.num_executing() > 0)
    last_work_ns_ = now_ns;
  const bool is_idle = now_ns - last_work_ns_ >= kIdleAfterNs;
  return std::exchange(is_idle_, is_idle) != is_idle;
}

}  // namespace itif::execution
