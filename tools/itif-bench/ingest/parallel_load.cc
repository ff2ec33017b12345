#include "ingest/parallel_load.h"

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_pause.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

namespace itif::bench {
namespace {

long num_preemptions() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

ParallelLoad::ParallelLoad(std::vector<WorkerLoad*> loads, std::vector<int> cpus)
    : loads_(std::move(loads)) {
  for (const WorkerLoad* load : loads_)
    for (const auto& worker : load->workers())
      runners_.push_back({.worker = worker.get(), .load = load});
  for (size_t i = 1; i < runners_.size(); ++i)
    threads_.emplace_back([this, i, cpu = cpus[i]] { serve(runners_[i], cpu); });
}

ParallelLoad::~ParallelLoad() {
  stops_.store(true);
  round_.fetch_add(1);
  for (std::thread& thread : threads_) thread.join();
}

void ParallelLoad::poll_until_done(Runner& runner) {
  const uint64_t sent = runner.load->num_sent();
  const bool answers = runner.load->answers_all();
  const auto is_done = [&] {
    uint64_t received = 0, answered = 0;
    for (const auto& worker : runner.load->workers()) {
      received += worker->counters().received.read();
      answered += worker->counters().sent.read();
    }
    return received >= sent && (!answers || answered >= sent);
  };
  const long before = num_preemptions();
  num_ready_.fetch_add(1);
  while (num_ready_.load(std::memory_order_acquire) < runners_.size()) rte_pause();
  runner.begin_cycles = rte_rdtsc_precise();
  while (runner.worker->poll() > 0 || !is_done()) {
  }
  runner.end_cycles = rte_rdtsc_precise();
  runner.was_interrupted = num_preemptions() != before;
}

// A thread's life. EAL gives it an id, and so a cache of packet buffers.
void ParallelLoad::serve(Runner& runner, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  ::sched_setaffinity(0, sizeof set, &set);
  (void)rte_thread_register();
  for (uint64_t seen = 0;;) {
    while (round_.load(std::memory_order_acquire) == seen) rte_pause();
    ++seen;
    if (stops_.load()) break;
    poll_until_done(runner);
    num_done_.fetch_add(1, std::memory_order_release);
  }
  rte_thread_unregister();
}

std::optional<ParallelLoad::Round> ParallelLoad::run() {
  Round round;
  for (WorkerLoad* load : loads_) {
    const uint64_t before = load->num_sent();
    load->build_round();
    while (load->put_burst() > 0) {
    }
    round.datagrams += load->num_sent() - before;
  }
  num_ready_.store(0);
  num_done_.store(0);
  round_.fetch_add(1, std::memory_order_release);
  poll_until_done(runners_.front());
  while (num_done_.load(std::memory_order_acquire) < threads_.size()) rte_pause();
  // The other threads only wait now.
  for (WorkerLoad* load : loads_) load->settle();
  uint64_t begin = UINT64_MAX, end = 0;
  bool was_interrupted = false;
  for (const Runner& runner : runners_) {
    begin = std::min(begin, runner.begin_cycles);
    end = std::max(end, runner.end_cycles);
    was_interrupted |= runner.was_interrupted;
  }
  if (was_interrupted) return std::nullopt;
  round.ns = static_cast<double>(end - begin) * 1e9 / WorkerLoad::cycles_per_second();
  return round;
}

}  // namespace itif::bench
