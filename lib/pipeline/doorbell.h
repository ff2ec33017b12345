// Wakes a thread that sleeps because it found nothing to do. Costs a busy thread nothing.
//
// One sleeper, any number of ringers. A ringer first makes its work visible (puts it on a ring),
// then calls ring(): a fence and a load if the sleeper is awake, a futex call if it sleeps.
#pragma once

#include <atomic>
#include <cstdint>

namespace itif::pipeline {

class Doorbell {
 public:
  void ring() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_relaxed) != 0) wake();
  }
  // Sleeps until rung, at most max_ns. Does not sleep if `ready()` finds work after the sleep has
  // been announced.
  template <class Ready>
  void wait(uint64_t max_ns, Ready&& ready) noexcept {
    asleep_.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready()) sleep(max_ns);
    asleep_.store(0, std::memory_order_relaxed);
  }

 private:
  void wake() noexcept;
  void sleep(uint64_t max_ns) noexcept;

  alignas(64) std::atomic<uint32_t> asleep_{0};
};

// Minimises this thread's timer slack: the kernel's default of 50 µs is as long as our sleeps.
void use_precise_sleeps() noexcept;

}  // namespace itif::pipeline
