// One thread that runs long operations one after another, from a bounded queue.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace itif::control {

struct WorkerStatus {
  std::string running;  // the operation's name; empty: none
  size_t waiting = 0;
};

struct Job {
  std::string name;
  std::function<void()> run;
  std::function<void()> refuse;  // called instead of run, if the worker stops first
};

class Worker {
 public:
  enum class Place { kLast, kNext };

  explicit Worker(size_t max_waiting) : max_waiting_(max_waiting) {}
  ~Worker() { stop(); }

  void start();
  // False if the queue is full (kLast only) or the worker has stopped. Any thread.
  bool post(Job job, Place place);
  WorkerStatus status() const;
  // No job starts any more; those that wait are refused. Not from the worker thread.
  void close();
  // Finishes the job that runs, refuses the rest. Idempotent; not from the worker thread.
  void stop();

 private:
  void loop();

  const size_t max_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::string running_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace itif::control
