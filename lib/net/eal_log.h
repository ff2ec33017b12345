// Sends DPDK's log lines to ours: errors and warnings as they are, the rest as debug.
//
// While EAL starts, its warnings and errors are kept back: a start that fails is told in one line,
// not in twenty.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace itif::net {

// From now on DPDK logs through us; keeps back until release_eal_log().
void capture_eal_log();
// What has been kept back, oldest first; afterwards lines go straight to the log.
std::vector<std::string> release_eal_log();
// A stream for what is printed to standard error while EAL starts; kept back like the log, without
// what the log says too. nullptr if there is no memory.
std::FILE* eal_stderr();
// The first of the lines kept back while EAL started that names `device`, empty if none does: EAL starts
// without a device that failed, and only its log says why.
std::string eal_complaint_about(std::string_view device);

}  // namespace itif::net
