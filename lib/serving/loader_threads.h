// Threads that do the long work of changes: they read, convert and pack the weights of models, and
// free memory. They run in the background (base/background_thread.h), so that executors and workers
// lose no CPU time to them. The thread that waits for posted work calls keep_pace(), so that the
// work goes on while all CPUs are busy.
//
// Any thread may call post() and run(), except the threads themselves.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/background_thread.h"

namespace itif::serving {

class LoaderThreads {
 public:
  static constexpr std::chrono::milliseconds kPacePeriod{500};  // between calls of keep_pace()

  // Starts `count` threads for posted work, and one for run(). `cpus`: that they may use; empty:
  // all of the process. `on_busy`: called with true before the first thread works, with false after
  // the last one. REQUIRES: count > 0.
  LoaderThreads(size_t count, std::vector<unsigned> cpus, std::function<void(bool)> on_busy = {});
  ~LoaderThreads();  // finishes what is posted
  LoaderThreads(const LoaderThreads&) = delete;
  LoaderThreads& operator=(const LoaderThreads&) = delete;

  // The number of calls of post() that run at the same time.
  size_t count() const { return posted_.threads.size(); }
  // Queues `work`, which must not throw.
  void post(std::function<void()> work);
  // Runs `work` and waits for its end, also while posted work keeps the other threads busy. Throws
  // what `work` throws.
  void run(const std::function<void()>& work);
  // Keeps posted work going while all CPUs are busy. Call it every kPacePeriod during a wait.
  void keep_pace() noexcept;

 private:
  struct Queue {
    std::deque<std::function<void()>> work;  // guarded by mutex_
    std::condition_variable changed;
    std::vector<std::thread> threads;
  };
  void start(Queue& queue, size_t count);
  void push(Queue& queue, std::function<void()> work);
  void loop(Queue& queue);

  const std::vector<unsigned> cpus_;
  const std::function<void(bool)> on_busy_;
  std::mutex mutex_;
  bool is_ending_ = false;  // guarded by mutex_, as is the next one
  std::vector<BackgroundThread*> working_;
  Queue posted_, waited_for_;
};

}  // namespace itif::serving
