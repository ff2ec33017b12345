// What no single key shows: contradictions between keys, and the grammar of addresses and
// endpoints.
#pragma once

#include <string>

#include "config/config.h"

namespace itif::config {

// Errors: kInvalidArgument; the message starts with `path` and names the keys that contradict each
// other or the value that is not what its key wants.
Status check(const Config& config, const std::string& path);

}  // namespace itif::config
