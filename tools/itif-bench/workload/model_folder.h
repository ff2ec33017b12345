// A temporary folder for the models of a bench, removed with the object, or when the process ends,
// however it ends: such folders take hundreds of megabytes.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "base/error.h"

namespace itif::bench {

class ModelFolder {
 public:
  // Errors: kPermission; kResourceExhausted (no process or file descriptor).
  static Result<ModelFolder> make();
  ModelFolder(ModelFolder&& other) noexcept;
  ModelFolder& operator=(ModelFolder&&) = delete;
  ~ModelFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ModelFolder(std::filesystem::path path) : path_(std::move(path)) {}
  Status start_remover();

  std::filesystem::path path_;
  // A child that removes the folder once the pipe's only writer, this process, has closed it. A
  // signal to this process, or to all of a terminal, does not end it.
  pid_t remover_ = -1;
  int pipe_ = -1;
};

}  // namespace itif::bench
