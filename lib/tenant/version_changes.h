// Changes to the versions in a tenant's record, and queries. Pure functions: nothing is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tenant/record.h"

namespace itif::tenant {

// Versions kept in a record, the active one included. The oldest retired ones and the oldest that
// were rolled back leave first.
inline constexpr size_t kMaxVersions = 16;

Version active_version(const Record& record);
// Returns the newest version in a state other than kActive; nullptr: there is none.
const Version* find_version(const Record& record, VersionState state) noexcept;
// Returns every version, newest first.
std::vector<Version> all_versions(const Record& record);

// Notes where a version was loaded. Does nothing if the record lacks the version.
void place_version(Record& record, uint32_t number, const Placement& placement);
// Notes what a version's files held when it was loaded. Does nothing if the record lacks it.
void note_contents(Record& record, uint32_t number, const Contents& contents);
// Gives the active version or the canary a new number, because its files have other contents by
// now. The active version under the old number becomes the previous one; a canary's old number
// counts as rolled back. Returns the new number. REQUIRES: `number` is that of the active version
// or of the canary.
uint32_t renumber_version(Record& record, uint32_t number, const Contents& contents,
                          uint64_t unix_ns);
// Returns the group in which a version without a placement should be loaded if its model fits
// there: that of the tenant's other model. Empty: none is known.
std::string neighbour_group(const Record& record, uint32_t number);

// Adds the model in `model_dir`, or the adapter there over the model in `base_dir`, as the active
// version. The active one becomes the previous one. REQUIRES: the record has no canary.
void install_version(Record& record, std::string model_dir, uint64_t unix_ns,
                     std::string base_dir = {});
// Adds such a model as a canary. REQUIRES: the record has none; 1 ≤ percent ≤ 99.
void install_canary(Record& record, std::string model_dir, uint32_t percent, uint64_t unix_ns,
                    std::string base_dir = {});
// Makes the canary active. The active version becomes the previous one. Returns false if there is
// no canary.
bool promote_canary(Record& record);
// Takes the canary back, or else makes the previous version active again; then the newest retired
// version before it becomes the previous one. Returns false if there is neither.
bool roll_back(Record& record);

}  // namespace itif::tenant
