// Runs a function in a child process, and says how the child ended.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/clock.h"
#include "control/file.h"
#include "serving/child_output.h"
#include "serving/sandbox.h"

namespace itif::serving {
namespace {

using control::Descriptor;

constexpr size_t kMaxOutputBytes = 64 * 1024;

[[noreturn]] void run_in_child(pid_t parent, int output, const std::function<std::string()>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != parent) ::_exit(1);
  ::setpgid(0, 0);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Standard input and output are /dev/null.
  ::dup2(output, STDERR_FILENO);
  ::close_range(STDERR_FILENO + 1, ~0u, 0);
  end_child(body());
}

// Reads until the child closes the pipe. Returns false if it has not done so in time.
bool read_all(int pipe, uint64_t time_ns, std::string& output) {
  const SystemClock clock;
  const uint64_t end_ns = clock.now_ns() + time_ns;
  std::array<char, 4096> bytes;
  for (;;) {
    const uint64_t now_ns = clock.now_ns();
    if (now_ns >= end_ns) return false;
    pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
    const uint64_t left_ms = (end_ns - now_ns) / 1'000'000 + 1;
    if (::poll(&ready, 1, static_cast<int>(std::min<uint64_t>(left_ms, 1000))) <= 0) continue;
    const ssize_t got = ::read(pipe, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    if (output.size() < kMaxOutputBytes) output.append(bytes.data(), static_cast<size_t>(got));
  }
}

}  // namespace

void end_child(std::string_view text) noexcept {
  if (::write(STDERR_FILENO, &kTextFollows, 1) != 1) ::_exit(2);
  while (!text.empty()) {
    const ssize_t put = ::write(STDERR_FILENO, text.data(), text.size());
    if (put <= 0) ::_exit(2);
    text.remove_prefix(static_cast<size_t>(put));
  }
  ::_exit(0);
}

Result<std::string> run_child(const SandboxLimits& limits,
                              const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail(Code::kResourceExhausted, "cannot make a pipe: " + errno_text(errno));
  const Descriptor from_child(ends[0]);
  Descriptor to_parent(ends[1]);
  const pid_t own = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    return fail(Code::kResourceExhausted, "cannot make a process: " + errno_text(errno));
  if (child == 0) run_in_child(own, to_parent.get(), body);
  to_parent = Descriptor();
  std::string output;
  const bool in_time = read_all(from_child.get(), limits.time_ns, output);
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return text_of_child(output, status, in_time, limits);
}

}  // namespace itif::serving
