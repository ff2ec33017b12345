// Which file to execute to run this program once more.
#pragma once

#include <string>

namespace itif {

// The path in the variable ITIF_PROGRAM, else /proc/self/exe's: in a bundle (tools/make-bundle) the latter is the
// dynamic loader, and the launcher sets the variable to its own path. Empty: neither is there; errno says why.
std::string own_program();

}  // namespace itif
