// Finds out whether the files of a model's version are still those that were installed.
#pragma once

#include <string>

#include "tenant/version.h"

namespace itif::control {

// Returns a file of the version's directories that was written after the version was installed;
// empty: none, or the directories cannot be read, or the time of the installation is not known. A
// file that was replaced by one with an older time is not noticed.
std::string changed_file(const tenant::Version& version);

}  // namespace itif::control
