// Keeps SIGINT, SIGTERM and SIGHUP back while a command has something to undo.
//
//   StopSignals signals;
//   while (!signals.caught()) …
//   … undo …
//   signals.end();  // as the signal would have done
#pragma once

#include <csignal>

namespace itif::ctl {

class StopSignals {
 public:
  // From now on the signals wait. Threads that are made meanwhile do not get them either.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Returns true once a signal has come.
  bool caught();
  // Ends the process by the signal, so that a shell sees why it ended. Returns if none has come.
  void end();

 private:
  sigset_t stops_, before_;
  int signal_ = 0;
};

}  // namespace itif::ctl
