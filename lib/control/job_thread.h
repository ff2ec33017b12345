// A thread that runs long operations sequentially, from a bounded queue.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace itif::control {

struct JobThreadStatus {
  std::string running;  // the operation's name; empty: none
  size_t waiting = 0;
};

struct Job {
  std::string name;
  std::function<void()> run;
  std::function<void()> refuse;       // called instead of both if the job thread stops first
  std::function<void()> answer = {};  // called after run, when the job no longer counts as running
};

class JobThread {
 public:
  enum class Order { kLast, kNext };

  // Calls `idle` once a second while there is no job.
  explicit JobThread(size_t max_waiting, std::function<void()> idle = {})
      : max_waiting_(max_waiting), idle_(std::move(idle)) {}
  ~JobThread() { stop(); }

  void start();
  // Returns false if the queue is full (kLast only) or the job thread has stopped. Any thread.
  bool post(Job job, Order order);
  JobThreadStatus status() const;
  // Returns true if a job waits, or if the job thread is to end. Any thread.
  bool is_wanted() const;
  // Starts no more jobs and refuses waiting ones. Not from the job thread.
  void close();
  // Finishes the running job, refuses the rest. Idempotent; not from the job thread.
  void stop();

 private:
  void loop();

  const size_t max_waiting_;
  const std::function<void()> idle_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::string running_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace itif::control
