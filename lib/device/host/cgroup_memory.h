// What the control groups that this process lives in leave it: a service's MemoryMax= or a container's
// limit binds long before the machine's memory does, and its out-of-memory killer takes the process.
#pragma once

#include <cstddef>
#include <string>

namespace itif::device {

// Limit less use, the least over the process's group and all above it; SIZE_MAX: no limit. File pages
// that were not used lately do not count as use: they are given up before anything is killed.
// `process_file`: /proc/self/cgroup; `root`: where the groups are mounted, /sys/fs/cgroup. Takes both
// versions; a path that is not to be seen from here (a container's own mount) counts as the root.
size_t cgroup_available_bytes(const std::string& process_file, const std::string& root);

}  // namespace itif::device
