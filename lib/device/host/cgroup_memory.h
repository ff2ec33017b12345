// The memory that this process's control groups leave it. The limit of a service (MemoryMax=) or
// container is reached long before the machine's memory is used up, and the out-of-memory killer
// then kills the process.
#pragma once

#include <cstddef>
#include <string>

namespace itif::device {

// Returns limit minus use, the smallest of the process's group and its ancestors; SIZE_MAX: no
// limit. Inactive file pages do not count as use: the kernel reclaims them before it kills a
// process. `process_file`: /proc/self/cgroup. `root`: the mount point of the groups,
// /sys/fs/cgroup. Supports cgroup versions 1 and 2. A path that is not visible here (a container's
// own mount) counts as the root.
size_t cgroup_available_bytes(const std::string& process_file, const std::string& root);

}  // namespace itif::device
