// Finds the file to execute to start this program again.
#pragma once

#include <string>

namespace itif {

// Returns the path in the environment variable ITIF_PROGRAM, else the target of /proc/self/exe. In
// a bundle (tools/make-bundle) /proc/self/exe is the dynamic loader, so the launcher sets
// ITIF_PROGRAM to its own path. Returns an empty string if neither exists; errno has the reason.
std::string own_program();

}  // namespace itif
