#include "control/worker.h"

#include <utility>

namespace itif::control {

void Worker::start() {
  thread_ = std::thread([this] { loop(); });
}

bool Worker::post(Job job, Place place) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || (place == Place::kLast && queue_.size() >= max_waiting_)) return false;
    if (place == Place::kNext)
      queue_.push_front(std::move(job));
    else
      queue_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

WorkerStatus Worker::status() const {
  const std::lock_guard lock(mutex_);
  return {running_, queue_.size()};
}

void Worker::close() {
  std::deque<Job> left;  // refused outside the lock: a job may ask for status()
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    left = std::exchange(queue_, {});
  }
  changed_.notify_one();
  for (const Job& job : left) job.refuse();
}

void Worker::stop() {
  close();
  if (thread_.joinable()) thread_.join();
}

void Worker::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const Job job = std::move(queue_.front());
    queue_.pop_front();
    running_ = job.name;
    lock.unlock();
    job.run();
    lock.lock();
    running_.clear();
  }
}

}  // namespace itif::control
