#include "serving/loader_threads.h"

#include <pthread.h>

#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/threads.h"

namespace itif::serving {

LoaderThreads::LoaderThreads(size_t count, std::vector<unsigned> cpus,
                             std::function<void(bool)> on_busy)
    : cpus_(std::move(cpus)), on_busy_(std::move(on_busy)) {
  CHECK(count > 0);
  start(posted_, count);
  start(waited_for_, 1);
}

LoaderThreads::~LoaderThreads() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  for (Queue* queue : {&posted_, &waited_for_}) {
    queue->changed.notify_all();
    for (std::thread& thread : queue->threads) thread.join();
  }
}

void LoaderThreads::start(Queue& queue, size_t count) {
  for (size_t i = 0; i < count; ++i) queue.threads.emplace_back([this, &queue] { loop(queue); });
}

void LoaderThreads::loop(Queue& queue) {
  pthread_setname_np(pthread_self(), "itif-loader");
  device::use_cpus(cpus_);
  BackgroundThread background;
  std::unique_lock lock(mutex_);
  for (;;) {
    queue.changed.wait(lock, [&] { return is_ending_ || !queue.work.empty(); });
    if (queue.work.empty()) return;
    std::function<void()> work = std::move(queue.work.front());
    queue.work.pop_front();
    lock.unlock();
    background.begin_work();
    lock.lock();
    if (working_.empty() && on_busy_) on_busy_(true);
    working_.push_back(&background);
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    std::erase(working_, &background);
    background.end_work();
    if (working_.empty() && on_busy_) on_busy_(false);
  }
}

void LoaderThreads::push(Queue& queue, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    CHECK(!is_ending_);
    queue.work.push_back(std::move(work));
  }
  queue.changed.notify_one();
}

void LoaderThreads::post(std::function<void()> work) {
  push(posted_, std::move(work));
}

void LoaderThreads::run(const std::function<void()>& work) {
  const auto task = std::make_shared<std::packaged_task<void()>>(work);
  std::future<void> end = task->get_future();
  push(waited_for_, [task] { (*task)(); });
  while (end.wait_for(kPacePeriod) != std::future_status::ready) keep_pace();
  end.get();
}

void LoaderThreads::keep_pace() noexcept {
  const std::lock_guard lock(mutex_);
  for (BackgroundThread* thread : working_) thread->keep_pace();
}

}  // namespace itif::serving
