// The mark of a registry: `<state_dir>/registry.mark`, a file beside the database which says how
// far the registry has come. It outlives a database that is removed, emptied, or replaced by an
// older one, so that the loss is noticed and no tenant id is used twice.
//
// The highest id is also kept as an extended attribute of the directory (user.itif.last_id), where
// the file system has such: it outlives all files.
//
// Invariant: the mark's numbers are never above those of the intact registry, because a change is
// committed to the database first. An id is in the mark before a tenant gets it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "control/registry_checksum.h"

namespace itif::control {

struct RegistryMark {
  std::string identity;  // of the registry; empty: an administrator accepts any
  uint64_t changes = 0;
  uint32_t last_id = 0;

  bool operator==(const RegistryMark&) const = default;
};

// Returns nothing if there is no mark. Errors: kCorrupt (damaged), those of read_file().
Result<std::optional<RegistryMark>> read_mark(const std::string& state_dir);
// The mark is on disk when the call returns. Errors: those of write_file().
Status write_mark(const std::string& state_dir, const RegistryMark& mark);

// Returns the highest id that the directory itself remembers; 0: none, or it cannot.
uint32_t remembered_id(const std::string& state_dir);

// Checks that a registry is not behind its mark. Errors: kCorrupt: another registry, or an older
// state of it; names the remedy.
Status check_not_behind(const RegistryContents& contents, const RegistryMark& mark,
                        const std::string& state_dir);
// The error for a registry that is no longer there.
std::unexpected<Error> lost_registry(const RegistryMark& mark, const std::string& state_dir);

// Makes the next start accept the registry in `state_dir` as it is: restored from a backup, or
// missing. Keeps the highest id. Errors: kUnavailable (an itifd runs there), kNotFound (no such
// directory), those of write_mark().
Status accept_registry(const std::string& state_dir);

}  // namespace itif::control
