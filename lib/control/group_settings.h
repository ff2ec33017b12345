// The settings of a group that an admin may change at any time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace itif::control {

inline constexpr uint32_t kMaxGroupWeight = 1000;  // as a tenant's

// An empty setting is not set: the configuration file's value applies. In an update it is not part
// of the update.
struct GroupSettings {
  std::string planner = {};
  std::string scheduler = {};
  // Percentage of the device; 0: a part of what the other groups leave, as device.shares says.
  std::optional<uint32_t> share_percent = {};
  // CPUs of its own, ascending; empty: it shares those that no group has for itself.
  std::optional<std::vector<unsigned>> cpus = {};
  // 1 to kMaxGroupWeight: its part of what groups with a set share leave, in relation to the other
  // groups' weights.
  std::optional<uint32_t> weight = {};

  bool operator==(const GroupSettings&) const = default;
};

}  // namespace itif::control
