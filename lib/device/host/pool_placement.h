// Keeps the threads of the compute pool off the CPU of the thread that leads them.
//
// The leader of an OpenMP team wakes its threads at the first parallel region of a batch, and spins
// at the end of each region until they are done. Linux sometimes wakes a thread on the leader's
// CPU, if the other CPUs look busy: a packet worker that naps for some ten microseconds at a time
// is enough. The leader then spins away its time slice, some milliseconds, before that thread can
// run, at each of the dozens of regions of a batch. Measured with BERT-tiny at 1,000 requests/s on
// two CPUs, which worker, pool and clients shared: p50 of 1.4 to 95 ms, and p99 of 410 to 610 ms
// without this, 0.8 and 2 ms with it. MiniLM at 100/s: p99 of 42 ms without, 6 ms with it.
//
// The leader itself may run anywhere. Pinning all threads was as good at 1,000 requests/s, but took
// a quarter of the largest throughput, because the scheduler could no longer move the leader away
// from a busy CPU. Beside floods, which use all CPUs, threads that are kept apart wait for a time
// slice at each region: p99 of 149 to 524 ms, instead of 24 to 31 ms without a restriction.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace itif::device {

// Places the teams of a stream, which one thread at a time leads.
class PoolPlacement {
 public:
  // `num_threads`: of a team, with its leader.
  explicit PoolPlacement(uint32_t num_threads) : num_threads_(num_threads) {}
  // Call one of these in the leader's thread ahead of the parallel regions of a batch. Unless the
  // leader has moved, keep_apart() costs a read of the CPU's number, and unpin() nothing.
  //
  // Keeps the other threads off the leader's CPU.
  void keep_apart() noexcept;
  // Lets them run anywhere: for threads that hardly spin, beside others that use all CPUs.
  void unpin() noexcept;

 private:
  // More threads are placed well enough by Linux, and take a system call each.
  static constexpr uint32_t kMostThreads = 4;

  void find_threads() noexcept;                // and names the others itif-pool
  bool allow(const cpu_set_t& cpus) noexcept;  // the other threads; false: it failed

  const uint32_t num_threads_;
  pid_t leader_ = 0;  // 0: no team found so far
  int cpu_ = -1;      // that the team's other threads keep off; -1: none
  cpu_set_t allowed_ = {};
  std::vector<pid_t> others_;
};

}  // namespace itif::device
