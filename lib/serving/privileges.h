// The user and the capabilities that the process keeps after it has started.
//
// Linux has a user and capabilities per thread. glibc changes the user of all threads at once, and
// a thread that stops being root loses its capabilities, unless it asked to keep them. So the
// threads that exist when privileges are dropped have none afterwards, workers included. The main
// thread keeps some, for the threads and the processes that are started later.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "config/config.h"
#include "pipeline/pipeline.h"

namespace itif::serving {

struct Account {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
};

// Returns the account that process.user and process.group name; nothing if both are empty.
// Errors: kNotFound (names the key), kInvalidArgument (a group without a user), kPermission (the
// process may not become that user).
Result<std::optional<Account>> find_account(const config::Process& process);

// A set of capabilities: bit CAP_… of linux/capability.h.
using Capabilities = uint64_t;

// Returns the capabilities that a port's driver needs after its start: to be closed, and, if
// `reopens`, to be opened by this process or another one, as a handover does.
Capabilities capabilities_for(const std::string& driver, bool reopens);
// Returns the names, as in "net_raw, net_admin"; "none".
std::string names_of(Capabilities capabilities);

// Gives the account the process's files (give_files), and drops all privileges that are not needed
// from here on, as the configuration says. `opens_ports`: the ports of `plane` are not open yet.
// Their capabilities are then kept without process.handover, too. Main thread, before it starts
// control. Errors: those of give_files() and drop_privileges().
Status leave_root(const std::optional<Account>& account, const config::Config& config,
                  const pipeline::Pipeline& plane, bool opens_ports);

// Gives the account what the process made as root and needs later: the state's directory, the
// sockets of control, the log file, and `directories` with all that is in them. Leaves files that
// do not belong to root. Errors: kPermission (names the file).
Status give_files(const Account& account, const config::Config& config,
                  std::span<const std::string> directories);

// Makes all threads run as the account, if any. The calling thread, and programs that it starts,
// keep the capabilities `kept`. Raises the limits of niceness and of locked memory. It keeps
// CAP_SYS_NICE or, if `opens_ports`, CAP_IPC_LOCK in place of a limit that it cannot raise. Root
// without an account keeps all. Main thread. Errors: kPermission.
Status drop_privileges(const std::optional<Account>& account, Capabilities kept, bool opens_ports,
                       const config::Process& process);

}  // namespace itif::serving
