// The tables of the registry's database, and their upgrades.
#pragma once

#include "base/error.h"
#include "control/database.h"

namespace itif::control {

// Errors: kCorrupt: the file is damaged.
Status check_integrity(Database& database);
// Creates the tables, or upgrades those of an older itifd, one transaction per version. Errors:
// kCorrupt: another program's database. kUnsupported: a newer itifd wrote it.
Status migrate(Database& database);

}  // namespace itif::control
