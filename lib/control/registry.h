// The durable list of tenants, and the settings of groups: one SQLite file, `<state_dir>/registry.db`.
//
// Invariants: a call that returned success is on disk (WAL, synchronous=FULL: fsync before return),
// so kill -9 or a power cut loses no acknowledged change; an id once allocated is never given out
// again, not even after its tenant is gone. Keys are in the file: it has mode 0600, its directory
// 0700. One process at a time: `<state_dir>/registry.lock` is held with flock while a Registry
// lives. Owned by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/appliance.h"
#include "control/database.h"
#include "control/file.h"

namespace itif::control {

class Registry {
 public:
  // The registry in `state_dir`, made if it is not there. Checks the file's integrity and brings an
  // older schema up to date.
  // Errors: kUnavailable (another itifd or program holds it), kPermission (directory, file or their
  // modes), kResourceExhausted (disk full), kCorrupt (damaged, or not ours), kUnsupported (written
  // by a newer itif), kInvalidArgument (state_dir is no directory).
  static Result<std::unique_ptr<Registry>> open(const std::string& state_dir);

  // Every tenant, by id. Errors: kCorrupt, with the row.
  Result<std::vector<TenantRecord>> load();
  // The planners of groups, by the groups' names. Errors: kCorrupt, with the row.
  Result<std::map<std::string, std::string>> load_planners();
  Status put_planner(const std::string& group, const std::string& planner);
  // A new id, durable before it is returned. Ids count up from 1.
  Result<uint32_t> allocate_id();
  // Errors: kAlreadyExists (id or name).
  Status insert(const TenantRecord& record);
  // Replaces the row of record.id. Errors: kNotFound, kAlreadyExists (name).
  Status update(const TenantRecord& record);
  // Errors: kNotFound.
  Status remove(uint32_t id);

  const std::string& path() const { return database_.path(); }

 private:
  Registry(FileLock lock, Database database)
      : lock_(std::move(lock)), database_(std::move(database)) {}

  FileLock lock_;
  Database database_;
};

}  // namespace itif::control
