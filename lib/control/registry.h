// The durable list of tenants and of group settings: an SQLite file, `<state_dir>/registry.db`.
//
// Invariants:
//
// - A change is on disk when its call returns success (WAL, synchronous=FULL: fsync before return).
//   kill -9 or a power cut loses no acknowledged change.
// - A tenant's id is never reused, not even after the tenant or the file is removed: the mark
//   (registry_mark.h) remembers it.
// - A change is refused while the file is not the one that was opened (registry_files.h): SQLite
//   would go on writing to a file that has no name.
// - Rows have checksums (registry_checksum.h).
// - The file holds keys: it has mode 0600, its directory 0700.
// - One process at a time: a Registry holds a flock on `<state_dir>/registry.lock`.
// One thread at a time owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/database.h"
#include "control/file.h"
#include "control/group_settings.h"
#include "control/registry_files.h"
#include "tenant/record.h"

namespace itif::control {

class Registry {
 public:
  // Opens or creates the registry in `state_dir`. Checks the file's integrity, checksums and mark,
  // and upgrades an older schema.
  // Errors: kUnavailable (another itifd or program holds it), kPermission (directory, file or their
  // modes), kResourceExhausted (disk full), kCorrupt (damaged, another program's, older than its
  // mark or another registry), kNotFound (it has a mark but is gone), kUnsupported (written by a
  // newer itif), kInvalidArgument (state_dir is not a directory).
  static Result<std::unique_ptr<Registry>> open(const std::string& state_dir);
  // Opens a copy, in memory, of the registry of another itifd that runs. Changes of the copy are
  // lost. Errors: those of open(), except another itifd that holds it.
  static Result<std::unique_ptr<Registry>> open_copy(const std::string& state_dir);
  // Replaces the copy by the registry itself, which the other itifd has released. Errors: those of
  // open().
  Status acquire();
  // Replaces the registry by a copy, so that another itifd can open it. acquire() takes it back.
  Status release();

  // Checks that the files are still those that were opened. Every change does so before. Errors:
  // kCorrupt (removed, replaced, emptied or overwritten; says what to do).
  Status check_files();

  // Returns every tenant, in order of id. Errors: kCorrupt (names table, row and column).
  Result<std::vector<tenant::Record>> load();
  // Returns the settings of groups, keyed by name. Errors: kCorrupt (as load()).
  Result<std::map<std::string, GroupSettings>> load_groups();
  // Keeps the settings that are not empty; the group's others stay.
  Status put_group(const std::string& group, const GroupSettings& settings);
  // Returns a new id, after making it durable. Ids count up from 1.
  Result<uint32_t> allocate_id();
  // Errors: kAlreadyExists (id or name).
  Status insert(const tenant::Record& record);
  // Replaces the row of record.id. Errors: kNotFound, kAlreadyExists (name).
  Status update(const tenant::Record& record);
  // Errors: kNotFound.
  Status remove(uint32_t id);

  const std::string& path() const { return database_.path(); }

 private:
  Registry(std::string state_dir, Database database)
      : state_dir_(std::move(state_dir)), database_(std::move(database)) {}
  // Runs `body` in a transaction, on the files that were opened, and makes the checksum of all.
  Status change(const std::function<Status()>& body);
  std::optional<int64_t> data_version();
  // Remembers the state of the files as ours.
  void note_files();
  Status save_mark();
  void try_to_save_mark();

  std::string state_dir_;
  std::optional<FileLock> lock_;         // none: database_ is a copy
  std::optional<RegistryFiles> files_;   // as lock_
  std::optional<int64_t> data_version_;  // at the last note_files()
  Database database_;
};

}  // namespace itif::control
