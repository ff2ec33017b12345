// The durable list of tenants and of group settings: an SQLite file, `<state_dir>/registry.db`.
//
// Invariants:
//
// - A change is on disk when its call returns success (WAL, synchronous=FULL: fsync before return).
//   kill -9 or a power cut loses no acknowledged change.
// - A tenant's id is never reused, not even after the tenant is removed.
// - The file holds keys: it has mode 0600, its directory 0700.
// - One process at a time: a Registry holds a flock on `<state_dir>/registry.lock`.
// One thread at a time owns it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/database.h"
#include "control/file.h"
#include "control/group_settings.h"
#include "tenant/record.h"

namespace itif::control {

class Registry {
 public:
  // Opens or creates the registry in `state_dir`. Checks the file's integrity and upgrades an older
  // schema.
  // Errors: kUnavailable (another itifd or program holds it), kPermission (directory, file or their
  // modes), kResourceExhausted (disk full), kCorrupt (damaged, or another program's), kUnsupported
  // (written by a newer itif), kInvalidArgument (state_dir is not a directory).
  static Result<std::unique_ptr<Registry>> open(const std::string& state_dir);
  // Opens a copy, in memory, of the registry of another itifd that runs. Changes of the copy are
  // lost. Errors: those of open(), except another itifd that holds it.
  static Result<std::unique_ptr<Registry>> open_copy(const std::string& state_dir);
  // Replaces the copy by the registry itself, which the other itifd has released. Errors: those of
  // open().
  Status acquire();
  // Replaces the registry by a copy, so that another itifd can open it. acquire() takes it back.
  Status release();

  // Returns every tenant, in order of id. Errors: kCorrupt (names the row).
  Result<std::vector<tenant::Record>> load();
  // Returns the settings of groups, keyed by name. Errors: kCorrupt (names the row).
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
  Registry(std::string state_dir, std::optional<FileLock> lock, Database database)
      : state_dir_(std::move(state_dir)), lock_(std::move(lock)), database_(std::move(database)) {}

  std::string state_dir_;
  std::optional<FileLock> lock_;  // none: database_ is a copy
  Database database_;
};

}  // namespace itif::control
