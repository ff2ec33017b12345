// A temporary folder for the models of a bench, removed with the object.
#pragma once

#include <filesystem>

#include "base/error.h"

namespace itif::bench {

class ModelFolder {
 public:
  // Errors: kPermission.
  static Result<ModelFolder> make();
  ModelFolder(ModelFolder&& other) noexcept;
  ModelFolder& operator=(ModelFolder&&) = delete;
  ~ModelFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ModelFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

}  // namespace itif::bench
