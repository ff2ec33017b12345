#include "workload/model_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace itif::bench {

Result<ModelFolder> ModelFolder::make() {
  std::string pattern = (std::filesystem::temp_directory_path() / "itif-bench-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    return fail(Code::kPermission, fmt::format("cannot make {}: {}", pattern, errno_text(errno)));
  return ModelFolder(pattern);
}

ModelFolder::ModelFolder(ModelFolder&& other) noexcept
    : path_(std::exchange(other.path_, std::filesystem::path())) {}

ModelFolder::~ModelFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace itif::bench
