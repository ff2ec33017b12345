#include "base/background_thread.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/clock.h"

namespace itif {
namespace {

constexpr int kLeastNice = 19;  // where SCHED_IDLE is refused

// Returns the CPU time that a thread has used. 0: the kernel does not say.
uint64_t cpu_ns(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/schedstat");
  uint64_t ns = 0;
  file >> ns;
  return file ? ns : 0;
}

}  // namespace

BackgroundThread::BackgroundThread() noexcept : id_(static_cast<pid_t>(syscall(SYS_gettid))) {
  set_policy(false);
}

// Linux sets the policy and the niceness of a single thread, given its id.
void BackgroundThread::set_policy(bool helps) noexcept {
  is_helped_ = helps;
  const sched_param none{};
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(id_), helps ? kHelpedNice : kLeastNice);
  (void)sched_setscheduler(id_, helps ? SCHED_OTHER : SCHED_IDLE, &none);
}

void BackgroundThread::begin_work() noexcept {
  since_ns_ = SystemClock().now_ns();
  since_cpu_ns_ = cpu_ns(id_);
}

void BackgroundThread::end_work() noexcept {
  if (is_helped_) set_policy(false);
}

void BackgroundThread::keep_pace() noexcept {
  const uint64_t now_ns = SystemClock().now_ns();
  if (now_ns - since_ns_ < kPeriodNs) return;
  if (const uint64_t used_ns = cpu_ns(id_); used_ns != 0) keep_pace(now_ns, used_ns);
}

void BackgroundThread::keep_pace(uint64_t now_ns, uint64_t used_ns) noexcept {
  if (now_ns - since_ns_ < kPeriodNs) return;
  const double share =
      static_cast<double>(used_ns - since_cpu_ns_) / static_cast<double>(now_ns - since_ns_);
  since_ns_ = now_ns;
  since_cpu_ns_ = used_ns;
  const bool helps = share < (is_helped_ ? kEnoughShare : kLeastShare);
  if (helps != is_helped_) set_policy(helps);
}

}  // namespace itif
