#include "device/host/cgroup_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

namespace itif::device {
namespace {

constexpr size_t kNone = std::numeric_limits<size_t>::max();

struct Version {
  const char* limit;
  const char* usage;
  std::string_view reclaimable;  // a key of memory.stat
};
constexpr Version kVersion2 = {"/memory.max", "/memory.current", "inactive_file"};
constexpr Version kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                               "total_inactive_file"};

// The number in a file; `none` for "max" or when there is no such file.
size_t read_number(const std::string& path, size_t none) {
  std::ifstream file(path);
  size_t value = 0;
  return file >> value ? value : none;
}

size_t read_stat(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string name;
  for (size_t value = 0; file >> name >> value;)
    if (name == key) return value;
  return 0;
}

size_t available_in(const std::string& group, const Version& version) {
  const size_t limit = read_number(group + version.limit, kNone);
  if (limit == kNone) return kNone;
  const size_t usage = read_number(group + version.usage, 0);
  const size_t reclaimable = read_stat(group + "/memory.stat", version.reclaimable);
  const size_t used = usage - std::min(usage, reclaimable);
  return limit - std::min(limit, used);
}

// "/system.slice/itifd.service" and its ancestors below `mount`, and `mount` itself.
size_t available_along(const std::string& mount, std::string path, const Version& version) {
  size_t available = available_in(mount, version);
  while (path.size() > 1) {
    available = std::min(available, available_in(mount + path, version));
    path.resize(path.rfind('/'));
  }
  return available;
}

}  // namespace

size_t cgroup_available_bytes(const std::string& process_file, const std::string& root) {
  size_t available =
      std::min(available_in(root, kVersion2), available_in(root + "/memory", kVersion1));
  std::ifstream file(process_file);
  for (std::string line; std::getline(file, line);) {  // "0::/path", "4:cpu,memory:/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (path.empty() || path.front() != '/') continue;
    if (controllers == ",,")
      available = std::min(available, available_along(root, path, kVersion2));
    else if (controllers.find(",memory,") != std::string::npos)
      available = std::min(available, available_along(root + "/memory", path, kVersion1));
  }
  return available;
}

}  // namespace itif::device
