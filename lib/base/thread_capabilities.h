// Linux keeps capabilities per thread: one that needs none can give its own up.
#pragma once

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace itif {

// Gives up all capabilities of the calling thread. REQUIRES: the process does not change its user
// later, because glibc changes that of all threads, and ends the process if one may not.
inline void drop_thread_capabilities() noexcept {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[2] = {};
  (void)::syscall(SYS_capset, &header, none);  // to fewer: it cannot fail
}

}  // namespace itif
