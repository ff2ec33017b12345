// Shortens libgomp's spinning while the program runs.
//
// libgomp reads its spin counts at load time, but chooses between two of them at each wait: threads
// spin for the short, throttled count while the process has more OpenMP threads than CPUs. libgomp
// counts the threads of a team from its first start until the thread that started it ends. So a
// team of sleeping threads throttles the compute pool, and the pool spins again once the thread
// that started that team has ended (gomp_managed_threads and do_spin() in GCC 12). Both take effect
// at the next wait.
//
// Measured with 2,000 parallel regions of two threads: 90 voluntary context switches while they
// spin, 4,000 beside one sleeping thread, 90 after it has ended.
//
// Two groups whose pools use all CPUs have more threads than CPUs in any case: libgomp always
// throttles them.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/error.h"

namespace itif::device {

// Throttles the process's pools while at least one holder asks for it. Any thread may call it.
class PoolThrottle {
 public:
  // `num_sleepers`: threads that sleep to throttle the pool. With the pool's they must be more than
  // the process's CPUs.
  explicit PoolThrottle(uint32_t num_sleepers) : num_sleepers_(num_sleepers) {}
  ~PoolThrottle();  // REQUIRES: every hold() was released
  PoolThrottle(const PoolThrottle&) = delete;
  PoolThrottle& operator=(const PoolThrottle&) = delete;

  // Makes them at least so many from the next hold() on: smaller pools need more. Any thread.
  void add_sleepers(uint32_t num_sleepers) noexcept;
  // Starts the thread that does the work, once. REQUIRES: one caller at a time. Errors:
  // kResourceExhausted.
  Status start();
  // Asks for throttling until release(). It begins some 100 µs later. Wakes a thread, and neither
  // allocates nor locks. Does nothing before start().
  void hold() noexcept;
  void release() noexcept;

 private:
  static constexpr int kStop = 1 << 30;
  void run() noexcept;
  void sleep_with_team() noexcept;

  std::atomic<uint32_t> num_sleepers_;
  std::atomic<int> holds_{0};  // number of holds; kStop is added to end the thread
  std::thread thread_;
};

}  // namespace itif::device
