#include "serving/main_loop.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "serving/service_manager.h"

namespace itif::serving {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kLongestWaitNs = 3600 * kSecondNs;

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

sigset_t all_signals() {
  sigset_t set = stop_signals();
  sigaddset(&set, SIGHUP);
  return set;
}

pthread_t main_thread;

// For a thread that does not block the signals: one that a library started before main().
void pass_to_main_thread(int signal) {
  ::pthread_kill(main_thread, signal);
}

void handle(const sigset_t& signals, void (*handler)(int)) noexcept {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    if (sigismember(&signals, signal)) ::sigaction(signal, &action, nullptr);
}

}  // namespace

void MainLoop::prepare_process() noexcept {
  for (int fd; (fd = ::open("/dev/null", O_RDWR)) >= 0;)
    if (fd > STDERR_FILENO) {
      ::close(fd);
      break;
    }
  ::signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = all_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  main_thread = ::pthread_self();
  handle(signals, pass_to_main_thread);
}

void MainLoop::release_stop_signals() noexcept {
  const sigset_t signals = stop_signals();
  handle(signals, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void MainLoop::announce_ready(std::string_view status) {
  is_ready_ = true;
  notify(fmt::format("READY=1\nSTATUS={}", status));
}

void MainLoop::on_hangup() {
  // Before READY=1 the service has not started: it cannot reload then.
  if (is_ready_) notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", clock_.now_ns() / 1000));
  const auto path = log::reopen();
  if (!path)
    log::error("SIGHUP: {}: the log goes on as before", path.error().message);
  else if (path->empty())
    log::info("SIGHUP: the log goes to standard error: there is no file to open again");
  else
    log::info("SIGHUP: {} is opened again", *path);
  if (is_ready_) notify("READY=1");
}

void MainLoop::every(uint64_t period_ns, std::function<void()> task) {
  tasks_.push_back({period_ns, clock_.now_ns(), std::move(task)});
}

uint64_t MainLoop::run_tasks() {
  uint64_t next_ns = clock_.now_ns() + kLongestWaitNs;
  for (Task& task : tasks_) {
    if (clock_.now_ns() >= task.next_ns) {
      task.run();
      task.next_ns = clock_.now_ns() + task.period_ns;
    }
    next_ns = std::min(next_ns, task.next_ns);
  }
  const uint64_t now_ns = clock_.now_ns();
  return next_ns - std::min(next_ns, now_ns);
}

int MainLoop::wait(uint64_t timeout_ns) {
  const sigset_t signals = all_signals();
  const uint64_t end_ns = clock_.now_ns() + timeout_ns;
  for (;;) {
    const uint64_t until_task_ns = run_tasks();
    const uint64_t now_ns = clock_.now_ns();
    const uint64_t left_ns = std::min(end_ns - std::min(end_ns, now_ns), until_task_ns);
    const timespec left{.tv_sec = static_cast<time_t>(left_ns / kSecondNs),
                        .tv_nsec = static_cast<long>(left_ns % kSecondNs)};
    const int signal = sigtimedwait(&signals, nullptr, &left);
    if (signal == SIGHUP)
      on_hangup();
    else if (signal > 0)
      return signal;
    if (clock_.now_ns() >= end_ns) return 0;
  }
}

int MainLoop::wait() {
  for (;;)
    if (const int signal = wait(kLongestWaitNs); signal != 0) return signal;
}

}  // namespace itif::serving
