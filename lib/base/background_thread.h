// Lets a thread run on the CPU time that other threads leave.
//
// Linux runs a thread of the policy SCHED_IDLE if no other thread wants the CPU, and lets any other
// thread take the CPU from it at once. A low priority alone (nice 19) is not enough: since Linux
// 6.6, a thread that wakes up may wait for the rest of the time slice of such a thread, some
// milliseconds.
//
// While threads use all CPUs, or poll on them, such a thread gets about 0.3 % of a CPU. keep_pace()
// then moves it to the usual policy with nice 5, about a quarter of a CPU, until it has more again.
//
// Threads that a background thread starts are background threads, too. One thread at a time may
// call the functions below; it may be another than the background thread.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace itif {

class BackgroundThread {
 public:
  static constexpr uint64_t kPeriodNs = 1'000'000'000;  // from one look at its share to the next
  static constexpr double kLeastShare = 0.05;           // of a CPU, else it is helped
  static constexpr double kEnoughShare = 0.6;           // of a CPU, else it is helped further
  static constexpr int kHelpedNice = 5;

  // Moves the calling thread to the background for the rest of its life.
  BackgroundThread() noexcept;

  // Call these when the thread begins and ends to work: a thread without work needs no help.
  void begin_work() noexcept;
  void end_work() noexcept;
  // Call it now and then while the thread works. Without the right to return to the usual policy
  // (CAP_SYS_NICE, or a limit on niceness), the thread stays in the background.
  void keep_pace() noexcept;
  // As keep_pace(), given SystemClock's time and the CPU time of the thread.
  void keep_pace(uint64_t now_ns, uint64_t used_ns) noexcept;
  bool is_helped() const noexcept { return is_helped_; }

 private:
  void set_policy(bool helps) noexcept;

  const pid_t id_;             // of the thread
  uint64_t since_ns_ = 0;      // start of the period
  uint64_t since_cpu_ns_ = 0;  // of the thread, at that time
  bool is_helped_ = false;
};

}  // namespace itif
