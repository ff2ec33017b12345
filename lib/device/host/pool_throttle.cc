#include "device/host/pool_throttle.h"

#include <omp.h>
#include <pthread.h>

#include <system_error>

#include "base/log.h"

namespace itif::device {

PoolThrottle::~PoolThrottle() {
  if (!thread_.joinable()) return;
  holds_.fetch_add(kStop);
  holds_.notify_all();
  thread_.join();
}

Status PoolThrottle::start() {
  if (thread_.joinable()) return {};
  try {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "itif-throttle");
      run();
    });
  } catch (const std::system_error& error) {
    return fail(Code::kResourceExhausted,
                std::string("cannot start a thread for the compute pool: ") + error.what());
  }
  return {};
}

void PoolThrottle::add_sleepers(uint32_t num_sleepers) noexcept {
  uint32_t most = num_sleepers_.load(std::memory_order_relaxed);
  while (most < num_sleepers && !num_sleepers_.compare_exchange_weak(most, num_sleepers)) {
  }
}

void PoolThrottle::hold() noexcept {
  holds_.fetch_add(1);
  holds_.notify_all();
}

void PoolThrottle::release() noexcept {
  holds_.fetch_sub(1);
  holds_.notify_all();
}

void PoolThrottle::run() noexcept {
  for (int holds = holds_.load(); holds < kStop; holds = holds_.load()) {
    if (holds == 0) {
      holds_.wait(0);
      continue;
    }
    try {
      // A thread of its own: libgomp counts the team until the thread that started it ends.
      std::thread([this] { sleep_with_team(); }).join();
    } catch (const std::system_error& error) {
      log::warning("the compute pool keeps spinning: {}", error.what());
      return;
    }
  }
}

void PoolThrottle::sleep_with_team() noexcept {
  const uint32_t num_threads = num_sleepers_.load(std::memory_order_relaxed) + 1;
#pragma omp parallel num_threads(num_threads)
  {
    // The other threads sleep at the region's end.
    if (omp_get_thread_num() == 0)
      for (int holds = holds_.load(); holds > 0 && holds < kStop; holds = holds_.load())
        holds_.wait(holds);
  }
}

}  // namespace itif::device
