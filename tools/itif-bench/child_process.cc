#include "child_process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>

#include "base/error.h"

extern char** environ;

namespace itif::bench {

std::string run_child(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/usr/bin/setpriv", "--pdeathsig", "TERM", "--"});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (const int error = ::posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ);
      error != 0)
    return fmt::format("cannot start it: {}", errno_text(error));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return fmt::format("cannot wait for it: {}", errno_text(errno));
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit status {}", WEXITSTATUS(status));
}

}  // namespace itif::bench
