// The identity and state of a registry's open files. A file that is removed or replaced while it is
// open still takes changes, which are lost when the process ends. So may be changes after another
// program has emptied or overwritten a file in place: SQLite goes on from what it remembers of it.
#pragma once

#include <sys/types.h>
#include <time.h>

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

  // Compares the files with those of open(), and their sizes and times with those of the last
  // note(). `database_bytes`: by SQLite's count. `others_wrote`: another program has changed the
  // registry through SQLite, so that sizes and times may differ. Errors: kCorrupt (names the file).
  Status check(int64_t database_bytes, bool others_wrote) const;
  // Remembers sizes and times. Call it after each change.
  void note() noexcept;

 private:
  struct File {
    std::string path;
    dev_t device;
    ino_t inode;
    off_t bytes;
    timespec modified;
  };
  // Returns true if only our changes, and those of others that SQLite counts, write the file.
  bool is_ours_alone(const File& file) const noexcept;

  std::vector<File> files_;  // the database, its log, the log's index
  int64_t bytes_ = 0;        // of the database
};

}  // namespace itif::control
