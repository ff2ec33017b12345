// Idles a polling loop after polls that found nothing. Busy: spins. Adaptive: spins briefly, then
// sleeps for longer and longer, so that two cores can run the whole product.
#pragma once

#include <rte_pause.h>

#include <algorithm>
#include <cstdint>

#include "pipeline/doorbell.h"

namespace itif::pipeline {

struct IdlePolicy {
  bool busy = false;
  uint32_t spins = 200;           // empty polls before the first sleep
  uint64_t min_sleep_ns = 2'000;  // doubles up to max_sleep_ns
  uint64_t max_sleep_ns = 50'000;
};

class Idle {
 public:
  explicit Idle(const IdlePolicy& policy) : policy_(policy), sleep_ns_(policy.min_sleep_ns) {}

  void set_busy(bool busy) noexcept { policy_.busy = busy; }
  void found_work() noexcept {
    empty_polls_ = 0;
    sleep_ns_ = policy_.min_sleep_ns;
  }
  // `ready()` returns true if work that rings `bell` has arrived meanwhile.
  template <class Ready>
  void found_nothing(Doorbell& bell, Ready&& ready) noexcept {
    if (policy_.busy || empty_polls_ < policy_.spins) {
      ++empty_polls_;
      rte_pause();
      return;
    }
    bell.wait(sleep_ns_, ready);
    sleep_ns_ = std::min(sleep_ns_ * 2, policy_.max_sleep_ns);
  }

 private:
  IdlePolicy policy_;
  uint32_t empty_polls_ = 0;
  uint64_t sleep_ns_;
};

}  // namespace itif::pipeline
