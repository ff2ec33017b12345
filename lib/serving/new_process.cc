#include "serving/new_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "base/log.h"

namespace itif::serving {
namespace {

constexpr size_t kKeptLines = 5;
constexpr uint64_t kEndPeriodUs = 10'000, kEndTries = 200;

// Returns this process's environment without WATCHDOG_PID, which names this process: the new one
// answers the service manager's watchdog in its place.
std::vector<std::string> environment_for_successor(const std::string& runtime_directory) {
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("WATCHDOG_PID=")) kept.emplace_back(*variable);
  if (std::getenv("RUNTIME_DIRECTORY") == nullptr)
    kept.push_back("RUNTIME_DIRECTORY=" + runtime_directory);
  return kept;
}

std::vector<char*> pointers_to(std::span<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Standard output and error become a pipe to this process until the new one serves, which then
// takes the true ones from their descriptors. All other descriptors are closed: an open NIC or
// packet socket would outlive this process.
int spawn(const NewProcess::Options& options, int channel, int output, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // The sources have numbers above all targets, so that none is overwritten before its turn.
  const std::array<std::pair<int, int>, 5> moves{{{channel, kChannelDescriptor},
                                                  {STDOUT_FILENO, kOutputDescriptor},
                                                  {STDERR_FILENO, kErrorDescriptor},
                                                  {output, STDOUT_FILENO},
                                                  {output, STDERR_FILENO}}};
  for (const auto& [from, to] : moves) posix_spawn_file_actions_adddup2(&actions, from, to);
  posix_spawn_file_actions_addclosefrom_np(&actions, kErrorDescriptor + 1);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &signals);

  std::array<std::string, 5> words = {options.binary, "--config", options.config_file,
                                      "--take-over", std::to_string(kChannelDescriptor)};
  std::vector<std::string> environment = environment_for_successor(options.runtime_directory);
  cpu_set_t own;
  const bool pinned = sched_getaffinity(0, sizeof own, &own) == 0;
  sched_setaffinity(0, sizeof options.cpus, &options.cpus);
  const int error = posix_spawn(&pid, options.binary.c_str(), &actions, &attributes,
                                pointers_to(words).data(), pointers_to(environment).data());
  if (pinned) sched_setaffinity(0, sizeof own, &own);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Returns a descriptor with a number above those that the new process gets.
control::Descriptor raised(int fd) {
  control::Descriptor low(fd);
  return control::Descriptor(::fcntl(low.get(), F_DUPFD_CLOEXEC, 16));
}

}  // namespace

Result<std::unique_ptr<NewProcess>> NewProcess::start(const Options& options) {
  int sockets[2], pipe[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return fail(Code::kResourceExhausted, "cannot make a socket pair: " + errno_text(errno));
  control::Descriptor channel(sockets[0]), their_channel = raised(sockets[1]);
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    return fail(Code::kResourceExhausted, "cannot make a pipe: " + errno_text(errno));
  control::Descriptor output(pipe[0]), their_output = raised(pipe[1]);
  ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
  pid_t pid = -1;
  if (const int error = spawn(options, their_channel.get(), their_output.get(), pid); error != 0)
    return fail(error == ENOENT   ? Code::kNotFound
                : error == EACCES ? Code::kPermission
                                  : Code::kInvalidArgument,
                fmt::format("cannot start {}: {}", options.binary, errno_text(error)));
  return std::unique_ptr<NewProcess>(new NewProcess(pid, std::move(output), std::move(channel)));
}

NewProcess::~NewProcess() {
  relay_output();
  kill();
}

void NewProcess::relay_output() {
  std::array<char, 4096> bytes;
  ssize_t got;
  while ((got = ::read(output_.get(), bytes.data(), bytes.size())) > 0) {
    log::relay({bytes.data(), static_cast<size_t>(got)});
    for (const char c : std::string_view(bytes.data(), static_cast<size_t>(got))) {
      if (c != '\n') {
        line_ += c;
        continue;
      }
      if (!line_.empty()) lines_.push_back(std::exchange(line_, {}));
      if (lines_.size() > kKeptLines) lines_.pop_front();
    }
  }
}

std::string NewProcess::last_lines() const {
  return fmt::format("{}", fmt::join(lines_, " | "));
}

std::string NewProcess::describe_end() {
  const int status = wait();
  relay_output();
  const std::string how = WIFSIGNALED(status)
                              ? fmt::format("was ended by signal {}", WTERMSIG(status))
                              : fmt::format("ended with exit status {}", WEXITSTATUS(status));
  const std::string lines = last_lines();
  return lines.empty() ? how : how + ": " + lines;
}

int NewProcess::wait() {
  if (pid_ < 0) return 0;
  int status = 0;
  // A program that closed its side but does not end is no itifd.
  for (uint64_t i = 0; i < kEndTries; ++i) {
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == 0) {
      ::usleep(kEndPeriodUs);
      relay_output();
      continue;
    }
    pid_ = -1;
    return status;
  }
  kill();
  return SIGKILL;
}

void NewProcess::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace itif::serving
