#include "scratch.h"

#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace itif::sim {
namespace {

// Locked for good by the first of the two ends, the main thread's or a signal's: the other waits.
std::mutex& end_of_process() {
  static auto* const mutex = new std::mutex;  // never freed: the thread outlives main()
  return *mutex;
}

}  // namespace

Scratch::~Scratch() {
  end_of_process().lock();
}

Scratch::Scratch() {
  auto made = TemporaryDirectory::make();
  if (!made) return;  // what needs a directory reports the error
  directory_ = std::move(*made);
  ::setenv("TMPDIR", directory_.path().c_str(), 1);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A thread, because a signal handler may not remove directories.
  std::thread([signals, path = directory_.path()] {
    int signal = 0;
    sigwait(&signals, &signal);
    end_of_process().lock();
    // Under another name the main thread, which goes on, can make no more files there.
    std::error_code error;
    const std::string moved = path + ".gone";
    std::filesystem::rename(path, moved, error);
    for (int tries = 0; tries < 100 && std::filesystem::exists(moved, error); ++tries)
      std::filesystem::remove_all(moved, error);
    ::_exit(128 + signal);
  }).detach();
}

}  // namespace itif::sim
