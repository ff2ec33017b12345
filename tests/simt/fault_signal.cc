// A program that this is linked into loses its GPU on SIGUSR2, as by a fault, until the device is reset; on SIGUSR1 for
// as long as it runs.
#include <pthread.h>

#include <csignal>
#include <thread>

#include "runtime.h"

namespace {

// Before any other thread is made, so that none takes the signal.
const bool started = [] {
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
