// The registry's tables: their versions, and the checks of a file before it is used.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "control/database.h"

namespace itif::control {

// Errors: kCorrupt: the file's pages contradict each other.
Status check_integrity(Database& database);
// Returns the version of the schema; 0: the file is empty. Errors: kCorrupt (another program's),
// kUnsupported (a newer itif's).
Result<int64_t> check_version(Database& database);
// Upgrades a schema of `version`. Checks the checksums before, and compares the tables and columns
// with those that this itif makes. Errors: also kCorrupt.
Status migrate(Database& database, int64_t version);

}  // namespace itif::control
