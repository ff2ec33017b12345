// Sends DPDK's log lines to ours: errors and warnings as they are, the rest as debug.
//
// While EAL starts, its warnings and errors are kept back: a start that fails is told in one line,
// not in twenty.
#pragma once

#include <string>
#include <vector>

namespace itif::net {

// From now on DPDK logs through us; keeps back until release_eal_log().
void capture_eal_log();
// What has been kept back, oldest first; afterwards lines go straight to the log.
std::vector<std::string> release_eal_log();

}  // namespace itif::net
