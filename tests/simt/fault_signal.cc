// A program linked with this file has a GPU of 4 GiB. The GPU fails on a signal: on SIGUSR2 until
// the device is reset, on SIGUSR1 for the rest of the process, which its GPU then refuses. The
// variable ITIF_SIMT_USED_ELSEWHERE can name a file with the bytes that other processes use of its
// memory.
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "runtime.h"

namespace {

void read_use(const char* file) {
  size_t bytes = 0;
  if (std::ifstream(file) >> bytes) simt::set_used_elsewhere(bytes);
}

// Runs before any other thread is created, so that no thread takes the signals.
const bool started = [] {
  simt::set_device({.memory_bytes = size_t{4} << 30});  // for the graphs of several groups
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (const char* file = std::getenv("ITIF_SIMT_USED_ELSEWHERE"); file != nullptr) {
    read_use(file);
    std::thread([file] {
      for (;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) read_use(file);
    }).detach();
  }
  std::thread([signals] {
    for (int signal = 0; sigwait(&signals, &signal) == 0;) simt::fail_after(0, signal == SIGUSR1);
  }).detach();
  return true;
}();

}  // namespace
