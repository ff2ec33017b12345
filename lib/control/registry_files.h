// The identity of a registry's open files. A file that is removed or replaced while it is open
// still takes changes, which are lost when the process ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::control {

class RegistryFiles {
 public:
  // Remembers the database, its -wal and -shm files. REQUIRES: the database is open, in WAL mode,
  // and its own file has all pages.
  static Result<RegistryFiles> open(const std::string& path);

  // Compares the files with those of open(). `database_bytes`: by SQLite's count. Errors: kCorrupt
  // (names the file).
  Status check(int64_t database_bytes) const;

 private:
  struct File {
    std::string path;
    dev_t device;
    ino_t inode;
  };
  std::vector<File> files_;  // the database first
  int64_t bytes_ = 0;        // of the database
};

}  // namespace itif::control
