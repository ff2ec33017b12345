// The system calls that the process may make once it serves (seccomp(2)).
//
// An allow list: calls that a data plane of DPDK, CUDA, OpenMP, SQLite and ZeroMQ makes while it
// serves, and calls that a successor, which inherits the filter, makes while it starts. Left out
// are ptrace, mount, kexec, modules, keys, bpf, userfaultfd, io_uring, perf, other processes'
// memory, namespaces, and sockets of other families.
#pragma once

#include <string>

#include "base/error.h"

namespace itif::serving {

struct SeccompOptions {
  // The fate of a call outside of the list. "refuse": it fails with ENOSYS, so that programs fall
  // back to older calls. "kill": it ends the process with SIGSYS. "log": it is written to the
  // kernel's log and succeeds. "off": there is no filter.
  std::string mode = "refuse";
  bool starts_programs = true;  // a handover may follow: a program may be started
  bool loads_bpf = false;       // and opens ports of AF_XDP
};

// Installs the filter for all threads. It cannot be removed; later filters only add to it.
// REQUIRES: no_new_privs. Errors: kUnsupported (the kernel has no seccomp, or a thread has another
// filter).
Status install_seccomp_filter(const SeccompOptions& options);

}  // namespace itif::serving
