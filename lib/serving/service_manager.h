// Sends messages to systemd, as sd_notify(3) does. A message is a datagram of text, so libsystemd
// is not needed. Does nothing without NOTIFY_SOCKET. Waits for a second at most if the socket is
// full.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>

namespace itif::serving {

// Sends assignments, one a line: "READY=1\nSTATUS=…". Logs a failure, the first of a run only.
void notify(std::string_view assignments);
// Tells the service manager that another process is the service's main process from now on.
void notify_main_pid(pid_t pid);
// Returns the time within which the service manager expects "WATCHDOG=1" again; 0: it expects none
// from this process.
uint64_t watchdog_ns();

}  // namespace itif::serving
