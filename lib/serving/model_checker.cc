#include "serving/model_checker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/clock.h"
#include "base/log.h"
#include "serving/model_check_wire.h"

namespace itif::serving {
namespace {

using control::Descriptor;

constexpr int kAnswerPollMs = 50;
// The checker kills a child that takes too long. Its answer needs time, too.
constexpr uint64_t kAnswerTimeNs = 10'000'000'000;

cpu_set_t set_of(const std::vector<unsigned>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

// Starts the program with `socket` as its descriptor kCheckerSocket, and no other open file.
int spawn(const ModelChecker::Options& options, int socket, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // A root directory without /dev has no null device: an empty file in memory does as well.
  const int opened = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const control::Descriptor nothing(opened >= 0 ? opened
                                                : ::memfd_create("itif-null", MFD_CLOEXEC));
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_adddup2(&actions, nothing.get(), standard);
  posix_spawn_file_actions_adddup2(&actions, socket, kCheckerSocket);
  posix_spawn_file_actions_addclosefrom_np(&actions, kCheckerSocket + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  std::string program = options.program, argument = kModelCheckerArgument;
  char* const words[] = {program.data(), argument.data(), nullptr};
  cpu_set_t own;
  const cpu_set_t wanted = set_of(options.cpus);
  const bool pinned = sched_getaffinity(0, sizeof own, &own) == 0;
  if (!options.cpus.empty()) sched_setaffinity(0, sizeof wanted, &wanted);
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes, words, environ);
  if (pinned) sched_setaffinity(0, sizeof own, &own);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Reads an answer. `limit_ns`: the longest time that the checker may take.
Result<std::string> read_answer(int pipe, uint64_t limit_ns,
                                const std::function<bool()>& gives_up) {
  const SystemClock clock;
  const uint64_t end_ns = clock.now_ns() + limit_ns;
  std::string answer;
  std::array<char, 4096> bytes;
  for (;;) {
    if (gives_up && gives_up())
      return fail(Code::kUnavailable, "the check of the model was given up");
    if (clock.now_ns() > end_ns)
      return fail(Code::kUnavailable, "the checker of models does not answer");
    pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kAnswerPollMs) <= 0) continue;
    const ssize_t got = ::read(pipe, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return answer;
    if (answer.size() < kMaxAnswerBytes) answer.append(bytes.data(), static_cast<size_t>(got));
  }
}

}  // namespace

Result<std::unique_ptr<ModelChecker>> ModelChecker::start(Options options) {
  std::unique_ptr<ModelChecker> checker(new ModelChecker(std::move(options)));
  ITIF_TRY(checker->start_process());
  return checker;
}

ModelChecker::~ModelChecker() {
  end_process();
}

Status ModelChecker::start_process() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(Code::kResourceExhausted, "cannot make a socket pair: " + errno_text(errno));
  socket_ = Descriptor(ends[0]);
  // Above the number that it gets, so that closing the others does not close it.
  const Descriptor low(ends[1]), theirs(::fcntl(ends[1], F_DUPFD_CLOEXEC, kCheckerSocket + 1));
  if (const int error = spawn(options_, theirs.get(), pid_); error != 0) {
    socket_ = Descriptor();
    pid_ = -1;
    return fail(Code::kUnsupported,
                fmt::format("cannot start the checker of models ({}): {}: make the file "
                            "executable for itifd's user, or set process.model_check to \"off\"",
                            options_.program, errno_text(error)));
  }
  return {};
}

void ModelChecker::end_process() {
  socket_ = Descriptor();  // a closed socket ends the checker; kill() is for one that hangs
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
}

Status ModelChecker::send(const std::string& request, int answers) {
  const std::lock_guard lock(mutex_);
  if (socket_ && send_request(socket_.get(), request, answers)) return {};
  log::error("the checker of models has ended: starting it again");
  end_process();
  if (const Status started = start_process(); !started)
    return fail(Code::kUnavailable,
                "the checker of models has ended and cannot be started again: restart itifd: " +
                    started.error().message);
  if (send_request(socket_.get(), request, answers)) return {};
  return fail(Code::kUnavailable, "the checker of models takes no request: restart itifd");
}

Status ModelChecker::check(const model::ModelFiles& files, const std::function<bool()>& gives_up) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail(Code::kResourceExhausted, "cannot make a pipe: " + errno_text(errno));
  const Descriptor from_checker(ends[0]);
  Descriptor to_us(ends[1]);
  ITIF_TRY(send(request_for({files, options_.limits}), to_us.get()));
  to_us = Descriptor();
  ITIF_ASSIGN(const std::string answer,
              read_answer(from_checker.get(), options_.limits.time_ns + kAnswerTimeNs, gives_up));
  return parse_answer(answer, files.directory);
}

}  // namespace itif::serving
