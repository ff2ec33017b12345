// Routes DPDK's log lines to ours: errors and warnings as warnings, the rest as debug.
//
// Warnings and errors are held back while EAL starts, so that a failed start is reported in one
// line instead of twenty.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace itif::net {

// Routes DPDK's log to ours and holds back warnings and errors until release_eal_log().
void capture_eal_log();
// Returns the lines held back, oldest first. Later lines go straight to the log.
std::vector<std::string> release_eal_log();
// Returns a stream to use as standard error while EAL starts. Its lines are held back like the
// log's; lines that EAL also logs are left out. nullptr if out of memory.
std::FILE* eal_stderr();
// Returns the first line held back while EAL started that names `device`; empty if there is none.
// EAL starts without a device that failed, and only its log says why.
std::string eal_complaint_about(std::string_view device);

}  // namespace itif::net
