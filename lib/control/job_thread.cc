#include "control/job_thread.h"

#include <chrono>
#include <utility>

namespace itif::control {
namespace {

constexpr std::chrono::seconds kIdlePeriod{1};

}  // namespace

void JobThread::start() {
  thread_ = std::thread([this] { loop(); });
}

bool JobThread::post(Job job, Order order) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || (order == Order::kLast && queue_.size() >= max_waiting_)) return false;
    if (order == Order::kNext)
      queue_.push_front(std::move(job));
    else
      queue_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

JobThreadStatus JobThread::status() const {
  const std::lock_guard lock(mutex_);
  return {running_, queue_.size()};
}

bool JobThread::is_wanted() const {
  const std::lock_guard lock(mutex_);
  return stopping_ || !queue_.empty();
}

void JobThread::close() {
  std::deque<Job> left;  // refused outside the lock: a job may ask for status()
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    left = std::exchange(queue_, {});
  }
  changed_.notify_one();
  for (const Job& job : left) job.refuse();
}

void JobThread::stop() {
  close();
  if (thread_.joinable()) thread_.join();
}

void JobThread::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto is_called = [this] { return stopping_ || !queue_.empty(); };
    if (!changed_.wait_for(lock, kIdlePeriod, is_called)) {
      if (!idle_) continue;
      lock.unlock();
      idle_();
      lock.lock();
      continue;
    }
    if (stopping_) return;
    const Job job = std::move(queue_.front());
    queue_.pop_front();
    running_ = job.name;
    lock.unlock();
    job.run();
    lock.lock();
    running_.clear();
    if (!job.answer) continue;
    lock.unlock();
    job.answer();
    lock.lock();
  }
}

}  // namespace itif::control
