#include "ingest/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/own_program.h"

extern char** environ;

namespace itif::bench {
namespace {

constexpr int kMostWaits = 500;
constexpr timespec kWait{.tv_sec = 0, .tv_nsec = 10'000'000};

}  // namespace

Result<Child> Child::start(std::vector<std::string> command, const std::string& cpus,
                           std::string output) {
  command.insert(command.begin(),
                 {"/usr/bin/setpriv", "--pdeathsig", "KILL", "--", "/usr/bin/taskset", "-c", cpus});
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return fail(error == ENOENT ? Code::kNotFound : Code::kInternal,
                fmt::format("cannot start {}: {}", command[0], errno_text(error)));
  return Child(pid, std::move(output));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), output_(std::move(other.output_)) {}

Child::~Child() {
  end();
}

bool Child::has_ended() {
  int status = 0;
  if (pid_ >= 0 && ::waitpid(pid_, &status, WNOHANG) != 0) pid_ = -1;
  return pid_ < 0;
}

void Child::end() {
  if (has_ended()) return;
  ::kill(pid_, SIGINT);
  for (int i = 0; i < kMostWaits; ++i) {
    if (has_ended()) return;
    ::nanosleep(&kWait, nullptr);
  }
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string Child::output() const {
  const std::ifstream file(output_);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Child::last_line() const {
  std::istringstream text(output());
  std::string last = "it printed nothing";
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) last = line;
  return last;
}

std::vector<int> usable_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  return cpus;
}

std::string program_beside(const std::string& name) {
  const std::filesystem::path own = std::filesystem::path(own_program()).parent_path();
  for (const auto& path : {own / name, own.parent_path() / name / name})
    if (std::filesystem::is_regular_file(path)) return path.string();
  return {};
}

std::string program_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  return {};
}

}  // namespace itif::bench
