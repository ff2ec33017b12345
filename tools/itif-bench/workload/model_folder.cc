#include "workload/model_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

extern char** environ;

namespace itif::bench {

Result<ModelFolder> ModelFolder::make() {
  std::string pattern = (std::filesystem::temp_directory_path() / "itif-bench-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    return fail(Code::kPermission, fmt::format("cannot make {}: {}", pattern, errno_text(errno)));
  ModelFolder folder(pattern);
  ITIF_TRY(folder.start_remover());
  return folder;
}

Status ModelFolder::start_remover() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail(Code::kResourceExhausted, fmt::format("cannot make a pipe: {}", errno_text(errno)));
  pipe_ = ends[1];
  std::string path = path_.string(), shell = "/bin/sh", option = "-c";
  std::string script = "read -r line; exec rm -rf -- \"$0\"";
  char* argv[] = {shell.data(), option.data(), script.data(), path.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const int error = ::posix_spawn(&remover_, argv[0], &actions, &attributes, argv, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[0]);
  if (error == 0) return {};
  remover_ = -1;
  return fail(Code::kResourceExhausted, fmt::format("cannot start a shell: {}", errno_text(error)));
}

ModelFolder::ModelFolder(ModelFolder&& other) noexcept
    : path_(std::exchange(other.path_, std::filesystem::path())),
      remover_(std::exchange(other.remover_, -1)),
      pipe_(std::exchange(other.pipe_, -1)) {}

ModelFolder::~ModelFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  if (pipe_ >= 0) ::close(pipe_);
  if (remover_ > 0)
    while (::waitpid(remover_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace itif::bench
