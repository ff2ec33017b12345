#include "control/version_files.h"

#include <chrono>
#include <filesystem>
#include <system_error>

namespace itif::control {
namespace {

namespace fs = std::filesystem;

std::string changed_file_in(const std::string& directory, uint64_t since_unix_ns) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const auto written = at->last_write_time(error);
    if (error || !at->is_regular_file(error)) continue;
    const auto since_epoch = std::chrono::file_clock::to_sys(written).time_since_epoch();
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
    if (ns > 0 && static_cast<uint64_t>(ns) > since_unix_ns) return at->path().string();
  }
  return "";
}

}  // namespace

std::string changed_file(const tenant::Version& version) {
  if (version.installed_unix_ns == 0) return "";
  for (const std::string& directory : {version.model_dir, version.base_dir}) {
    if (directory.empty()) continue;
    std::string changed = changed_file_in(directory, version.installed_unix_ns);
    if (!changed.empty()) return changed;
  }
  return "";
}

}  // namespace itif::control
