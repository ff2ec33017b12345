#include "control/registry_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace itif::control {
namespace {

std::unexpected<Error> lost(const std::string& path, const char* how) {
  return fail(Code::kCorrupt,
              fmt::format("{} was {} while itifd runs: no change can be saved: put the very same "
                          "file back (mv), or stop itifd, restore a backup and start; until then "
                          "the tenants are served as they are",
                          path, how));
}

}  // namespace

// The files are not opened: closing a descriptor would release SQLite's locks on the file.
Result<RegistryFiles> RegistryFiles::open(const std::string& path) {
  RegistryFiles files;
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    struct stat info {};
    std::string name = path + suffix;
    if (::stat(name.c_str(), &info) != 0) return lost(name, "removed");
    if (files.files_.empty()) files.bytes_ = info.st_size;
    files.files_.push_back({std::move(name), info.st_dev, info.st_ino, info.st_size, info.st_mtim});
  }
  return files;
}

Status RegistryFiles::check(int64_t database_bytes, bool others_wrote) const {
  for (const File& file : files_) {
    struct stat info {};
    if (::stat(file.path.c_str(), &info) != 0) return lost(file.path, "removed");
    if (info.st_dev != file.device || info.st_ino != file.inode) return lost(file.path, "replaced");
    // A VACUUM of another program may shrink the file.
    if (&file == files_.data() && info.st_size < std::min(bytes_, database_bytes))
      return lost(file.path, "emptied");
    if (others_wrote || !is_ours_alone(file)) continue;
    if (info.st_size < file.bytes) return lost(file.path, "emptied");
    if (info.st_size != file.bytes || info.st_mtim.tv_sec != file.modified.tv_sec ||
        info.st_mtim.tv_nsec != file.modified.tv_nsec)
      return lost(file.path, "overwritten");
  }
  return {};
}

// SQLite maps the index of the log, and writes it when it reads. Another program's checkpoint
// writes the database without a change, unless the log is empty.
bool RegistryFiles::is_ours_alone(const File& file) const noexcept {
  const File &database = files_[0], &log = files_[1];
  return &file == &log || (&file == &database && log.bytes == 0);
}

void RegistryFiles::note() noexcept {
  for (File& file : files_) {
    struct stat info {};
    if (::stat(file.path.c_str(), &info) != 0) continue;  // check() finds out
    file.bytes = info.st_size;
    file.modified = info.st_mtim;
  }
}

}  // namespace itif::control
