// Starts and stops DPDK's environment (EAL). Main thread only.
//
// rte_eal_init can be called only once per process, so plan_eal() checks for hugepages first.
// Without them it adds --no-huge and a one-line warning with the remedy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::net {

struct Hugepages {
  uint64_t free_bytes = 0;
  bool mounted = false;   // a hugetlbfs is mounted
  bool writable = false;  // we may create files in it
  std::string mount_point;
};
// Reads <root>/proc/mounts and <root>/sys/kernel/mm/hugepages.
Hugepages inspect_hugepages(const std::string& root = "");

struct EalPlan {
  std::vector<std::string> args;  // without argv[0]
  bool no_huge = false;
  std::string warning;  // one line; empty unless --no-huge was added
};
// Adds --no-huge to the configured arguments if too few hugepages are usable. Adds -m <needed_mb>
// if --no-huge applies and the arguments set no amount of memory.
EalPlan plan_eal(std::vector<std::string> args, const Hugepages& hugepages, uint32_t needed_mb);

// Returns why these arguments prevent other processes, such as dpdk-dumpcap, from attaching to our
// memory; empty if they do not.
std::string keeps_captures_out(const std::vector<std::string>& args);

// Runs rte_eal_init with its log routed to ours, then rte_pdump_init. If the arguments rule out
// captures, logs one line that says why. Redirects standard output and error while it runs: call it
// before starting threads that print. A --vdev that cannot be created is an error with the driver's
// reason. Pins the calling thread to the main lcore's CPU; threads that it starts later inherit
// that.
// Errors: kPermission, kResourceExhausted, kNotFound (a device), kUnavailable (another primary
// process), kInvalidArgument (an argument). Each message is one line: EAL's most specific log line
// and a remedy. EAL is then stopped.
Status start_eal(const std::vector<std::string>& args);

// Returns true if dpdk-dumpcap can attach.
bool packet_capture_ready();

// Closes ports, ends packet capture, frees EAL's memory. Does nothing if EAL is not running.
void stop_eal();

}  // namespace itif::net
