// Checksums in the registry. SQLite's own checks see a damaged tree of pages, but not a changed
// byte inside a value. So each row has a checksum of its values, and the table `contents` has one
// of all rows together, which also notices a row that is missing. They are BLAKE2b without a key:
// they show accidents, not forgery.
//
// An administrator who changes a row by hand writes `edited` in place of its checksum. The next
// start accepts the row and makes the checksum again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "control/database.h"

namespace itif::control {

inline constexpr std::string_view kEdited = "edited";

// The row of the table `contents`.
struct RegistryContents {
  std::string identity;  // random; two registries differ in it
  uint64_t changes = 0;  // that were made since the registry was made
  uint32_t last_id = 0;  // the highest tenant id that was allocated
};

// The functions below need schema version 8 or later. Errors: as database_error.

// Makes the checksums of the rows of `table` that `condition` selects. REQUIRES: in a transaction
// that ends with seal_contents().
Status seal_rows(Database& database, std::string_view table, std::string_view condition,
                 std::span<const Value> values);
// Counts a change and makes the checksum of all rows. REQUIRES: in a transaction.
Status seal_contents(Database& database);
// Makes all checksums. REQUIRES: in a transaction.
Status seal_all(Database& database);

// Compares all checksums with the rows. Returns true if something is marked as edited by hand: then
// seal_all() is due. Errors: also kCorrupt; names the row.
Result<bool> verify_checksums(Database& database);
Result<RegistryContents> read_contents(Database& database);

}  // namespace itif::control
