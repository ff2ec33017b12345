// The process that a handover starts: its program, its output, its end. Owned by control's job
// thread.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <deque>
#include <memory>
#include <string>

#include "base/error.h"
#include "control/file.h"
#include "serving/handover_channel.h"

namespace itif::serving {

// Descriptors that the new process finds open.
constexpr int kChannelDescriptor = 3;
constexpr int kOutputDescriptor = 4;  // the old process's standard output
constexpr int kErrorDescriptor = 5;   // its standard error

class NewProcess {
 public:
  struct Options {
    std::string binary;
    std::string config_file;
    cpu_set_t cpus;  // of this process at its start, before its threads were pinned
    // DPDK's, of this process: the new one may be another user, for whom DPDK has another default.
    std::string runtime_directory;
  };
  // Errors: kNotFound, kPermission (the program), kResourceExhausted.
  static Result<std::unique_ptr<NewProcess>> start(const Options& options);
  ~NewProcess();  // kill(), unless it was released

  HandoverChannel& channel() { return channel_; }
  pid_t pid() const { return pid_; }
  // Writes the output that has arrived to this process's log, and remembers its end.
  void relay_output();
  // Says how the process ended and its last lines. REQUIRES: its side of the channel is closed.
  std::string describe_end();
  std::string last_lines() const;
  // Ends the process and waits for its end. Does nothing if it has ended.
  void kill();
  // Lets the new process live on after this object. The channel stays open as long as this process
  // lives: when the channel ends, the new process knows that this one has ended.
  void release() {
    pid_ = -1;
    channel_.keep_open();
  }

 private:
  NewProcess(pid_t pid, control::Descriptor output, control::Descriptor channel)
      : pid_(pid), output_(std::move(output)), channel_(std::move(channel)) {}
  int wait();  // returns the status of waitpid

  pid_t pid_;
  control::Descriptor output_;
  HandoverChannel channel_;
  std::string line_;  // incomplete
  std::deque<std::string> lines_;
};

}  // namespace itif::serving
