#include "pipeline/doorbell.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace itif::pipeline {

void Doorbell::wake() noexcept {
  if (asleep_.exchange(0, std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, &asleep_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Doorbell::sleep(uint64_t max_ns) noexcept {
  const timespec timeout{static_cast<time_t>(max_ns / 1'000'000'000),
                         static_cast<long>(max_ns % 1'000'000'000)};
  syscall(SYS_futex, &asleep_, FUTEX_WAIT_PRIVATE, 1, &timeout, nullptr, 0);
}

void use_precise_sleeps() noexcept {
  prctl(PR_SET_TIMERSLACK, 1);
}

}  // namespace itif::pipeline
