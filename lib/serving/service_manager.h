// Messages to systemd, as sd_notify(3) sends them. They do nothing without NOTIFY_SOCKET.
#pragma once

#include <sys/types.h>

namespace itif::serving {

// Tells the service manager that another process is the service's main process from now on.
void notify_main_pid(pid_t pid);

}  // namespace itif::serving
