// The main thread's wait while the appliance serves: takes the process's signals and runs periodic
// tasks.
//
//   SIGTERM, SIGINT  end the wait
//   SIGHUP           opens the log file again, and tells the service manager
//   SIGPIPE          ignored
//
// Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace itif::serving {

class MainLoop {
 public:
  explicit MainLoop(const Clock& clock) : clock_(clock) {}

  // Blocks the signals above in this thread and in those that it starts, so that only wait() takes
  // them; a thread that runs already passes them to this one. Opens /dev/null as each standard
  // descriptor that is closed: otherwise the log would go to the next file or socket that opens.
  // REQUIRES: no file is open, and no other thread opens one.
  static void prepare_process() noexcept;
  // Lets SIGTERM and SIGINT end the process at once.
  static void release_stop_signals() noexcept;

  // Calls `task` in every wait, at the beginning and then once a period. A task cannot end a wait.
  // REQUIRES: period_ns is not 0.
  void every(uint64_t period_ns, std::function<void()> task);
  // Tells the service manager that the service is ready.
  void announce_ready(std::string_view status);
  bool is_ready() const noexcept { return is_ready_; }
  // Waits for SIGTERM or SIGINT. Returns the signal, or 0 after timeout_ns.
  int wait(uint64_t timeout_ns);
  // As above, without a limit.
  int wait();

 private:
  struct Task {
    uint64_t period_ns;
    uint64_t next_ns;
    std::function<void()> run;
  };
  // Runs tasks that are due. Returns the time until the next one.
  uint64_t run_tasks();
  void on_hangup();

  const Clock& clock_;
  std::vector<Task> tasks_;
  bool is_ready_ = false;
};

}  // namespace itif::serving
