// The settings of a group that an admin may change at any time.
#pragma once

#include <cstdint>
#include <string>

namespace itif::control {

// An empty setting is not set: the configuration file's value applies.
struct GroupSettings {
  std::string planner;
  std::string scheduler;
  uint32_t share_percent = 0;  // of the device; 0: not set, an equal part of what is left

  bool operator==(const GroupSettings&) const = default;
};

}  // namespace itif::control
