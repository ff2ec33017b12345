// Lists a configuration as "section.key" → value text, every key included: printed by `config
// check` and a debug log, compared by tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace itif::config {

// In the order of conf/itifd.conf; ports as "ports[0].mtu". Durations in ns and sizes in bytes.
std::vector<std::pair<std::string, std::string>> flatten(const Config& config);

}  // namespace itif::config
