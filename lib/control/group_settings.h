// The settings of a group that an admin may change at any time.
#pragma once

#include <string>

namespace itif::control {

// An empty setting is not set: the configuration file's value applies.
struct GroupSettings {
  std::string planner;
  std::string scheduler;

  bool operator==(const GroupSettings&) const = default;
};

}  // namespace itif::control
