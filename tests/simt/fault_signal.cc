// A program linked with this file has a GPU of 4 GiB. The GPU fails on a signal: on SIGUSR2 until
// the device is reset, on SIGUSR1 for the rest of the process, which its GPU then refuses.
#include <pthread.h>

#include <csignal>
#include <thread>

#include "runtime.h"

namespace {

// Runs before any other thread is created, so that no thread takes the signals.
const bool started = [] {
  simt::set_device({.memory_bytes = size_t{4} << 30});  // for the graphs of several groups
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    for (int signal = 0; sigwait(&signals, &signal) == 0;) simt::fail_after(0, signal == SIGUSR1);
  }).detach();
  return true;
}();

}  // namespace
