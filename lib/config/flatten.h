// A configuration as "section.key" → value text, every key included: what `config check` and a
// debug log print, and what the tests compare.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace itif::config {

// In the order of conf/itifd.conf; ports as "ports[0].mtu". Durations in ns and sizes in bytes.
std::vector<std::pair<std::string, std::string>> flatten(const Config& config);

}  // namespace itif::config
