#include "stop_signals.h"

#include <cstdio>
#include <ctime>

namespace itif::ctl {

StopSignals::StopSignals() {
  sigemptyset(&stops_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops_, signal);
  pthread_sigmask(SIG_BLOCK, &stops_, &before_);
}

StopSignals::~StopSignals() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool StopSignals::caught() {
  constexpr timespec kAtOnce{};
  if (signal_ == 0) {
    const int signal = sigtimedwait(&stops_, nullptr, &kAtOnce);
    if (signal > 0) signal_ = signal;
  }
  return signal_ != 0;
}

void StopSignals::end() {
  if (!caught()) return;
  std::fflush(nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  std::raise(signal_);
}

}  // namespace itif::ctl
