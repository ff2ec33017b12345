#include "serving/main_loop.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/clock.h"

namespace itif::serving {
namespace {

// Runs `body` in a process of its own. Returns the status that waitpid() gives.
template <class Body>
int status_of(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

// A library's thread, started before main(), that blocks no signal.
void start_library_thread() {
  std::thread([] {
    for (;;) ::pause();
  }).detach();
}

TEST(MainLoop, ASignalWhileItDoesNotWaitIsNotLost) {
  const int status = status_of([] {
    start_library_thread();
    MainLoop::prepare_process();
    ::kill(::getpid(), SIGTERM);
    const SystemClock clock;
    return MainLoop(clock).wait(5'000'000'000);
  });
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), SIGTERM);
}

TEST(MainLoop, ReleasedStopSignalsEndTheProcess) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const int status = status_of([signal] {
      start_library_thread();
      MainLoop::prepare_process();
      MainLoop::release_stop_signals();
      ::kill(::getpid(), signal);
      ::pause();
      return 0;
    });
    ASSERT_TRUE(WIFSIGNALED(status)) << "status " << status;
    EXPECT_EQ(WTERMSIG(status), signal);
  }
}

}  // namespace
}  // namespace itif::serving
