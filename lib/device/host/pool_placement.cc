#include "device/host/pool_placement.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>

namespace itif::device {

void PoolPlacement::keep_apart() noexcept {
  if (num_threads_ < 2 || num_threads_ > kMostThreads) return;
  if (leader_ != ::gettid()) find_threads();
  const int cpu = ::sched_getcpu();
  if (others_.empty() || cpu == cpu_) return;
  cpu_set_t others = allowed_;
  CPU_CLR(static_cast<size_t>(cpu), &others);
  if (allow(others)) cpu_ = cpu;
}

void PoolPlacement::unpin() noexcept {
  if (cpu_ >= 0 && allow(allowed_)) cpu_ = -1;
}

// libgomp keeps a team's threads for the next regions of the thread that leads them.
void PoolPlacement::find_threads() noexcept {
  leader_ = ::gettid();
  cpu_ = -1;
  others_.clear();
  CPU_ZERO(&allowed_);
  if (::sched_getaffinity(0, sizeof allowed_, &allowed_) != 0 ||
      CPU_COUNT(&allowed_) < static_cast<int>(num_threads_))
    return;
  std::vector<pid_t> found(num_threads_);
#pragma omp parallel num_threads(num_threads_)
  {
    const auto index = static_cast<size_t>(omp_get_thread_num());
    found[index] = ::gettid();
    if (index > 0) pthread_setname_np(pthread_self(), "itif-pool");
  }
  for (const pid_t thread : found)
    if (thread != 0 && thread != leader_) others_.push_back(thread);
}

bool PoolPlacement::allow(const cpu_set_t& cpus) noexcept {
  for (const pid_t thread : others_) {
    // libgomp may have replaced the team's threads. The number of one that has ended may be another
    // process's.
    const bool is_gone = ::tgkill(::getpid(), thread, 0) != 0;
    if (!is_gone && ::sched_setaffinity(thread, sizeof cpus, &cpus) == 0) continue;
    if (is_gone) leader_ = 0;
    others_.clear();
    cpu_ = -1;
    return false;
  }
  return true;
}

}  // namespace itif::device
