// Workers that run at the same time, each in a thread on a CPU of its own: their rate together.
//
// A round of datagrams is built and put into the ports untimed. When all threads are ready, they
// poll until their load's datagrams are handled, and answered if the load says so. The time is that
// from the first thread's start to the last one's end. The calling thread runs the first worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "ingest/worker_load.h"

namespace itif::bench {

class ParallelLoad {
 public:
  // All workers of the loads, which outlive this. `cpus`: one per worker; the calling thread is on
  // the first. Loads of whole rounds: options.burst is round_datagrams() or more.
  ParallelLoad(std::vector<WorkerLoad*> loads, std::vector<int> cpus);
  ParallelLoad(const ParallelLoad&) = delete;
  ParallelLoad& operator=(const ParallelLoad&) = delete;
  ~ParallelLoad();

  // Runs a round. Returns nullopt if the kernel gave a core to another thread meanwhile.
  struct Round {
    uint64_t datagrams = 0;
    double ns = 0;
  };
  std::optional<Round> run();

 private:
  struct Runner {
    pipeline::Worker* worker;
    const WorkerLoad* load;
    uint64_t begin_cycles = 0, end_cycles = 0;
    bool was_interrupted = false;
  };
  void poll_until_done(Runner& runner);
  void serve(Runner& runner, int cpu);

  std::vector<WorkerLoad*> loads_;
  std::vector<Runner> runners_;
  std::vector<std::thread> threads_;  // of all runners but the first
  std::atomic<uint64_t> round_{0};    // begins when it rises
  std::atomic<size_t> num_ready_{0}, num_done_{0};
  std::atomic<bool> stops_{false};
};

}  // namespace itif::bench
