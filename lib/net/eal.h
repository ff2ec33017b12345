// Starts and stops DPDK's environment (EAL). Main thread only.
//
// rte_eal_init can be called once a process, so what it would fail on is looked at before: a
// machine without hugepages gets --no-huge, with one line that says so and what to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::net {

struct Hugepages {
  uint64_t free_bytes = 0;
  bool mounted = false;   // a hugetlbfs is mounted …
  bool writable = false;  // … and we may create files in it
  std::string mount_point;
};
// Reads <root>/proc/mounts and <root>/sys/kernel/mm/hugepages.
Hugepages inspect_hugepages(const std::string& root = "");

struct EalPlan {
  std::vector<std::string> args;  // without argv[0]
  bool no_huge = false;
  std::string warning;  // one line, empty if hugepages are used
};
// Adds what is missing to the configured arguments: --no-huge -m <no_huge_mb> when there are no
// hugepages to use and the arguments do not decide it themselves.
EalPlan plan_eal(std::vector<std::string> args, const Hugepages& hugepages, uint32_t needed_mb);

// Why these arguments keep other processes, and with them dpdk-dumpcap, from our memory; empty if
// they do not.
std::string keeps_captures_out(const std::vector<std::string>& args);

// rte_eal_init with the log routed to ours (warnings and errors), then rte_pdump_init; where the
// arguments forbid captures, one line says so. Standard error is redirected while it runs: call
// before other threads are made that print. A --vdev that cannot be made is an error with its driver's
// reason. The calling thread is pinned to the main lcore's CPU from then on, and threads it starts
// inherit that.
// Errors: kPermission, kResourceExhausted, kNotFound (a device), kUnavailable (another primary
// process), kInvalidArgument (an argument), each one line with EAL's last words and a remedy; EAL is
// then stopped.
Status start_eal(const std::vector<std::string>& args);

// Whether dpdk-dumpcap can attach.
bool packet_capture_ready();

// Closes ports, ends packet capture, frees EAL's memory. Harmless if EAL never started.
void stop_eal();

}  // namespace itif::net
