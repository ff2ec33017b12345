// Checks that involve several keys, and the syntax of addresses and endpoints.
#pragma once

#include <string>

#include "config/config.h"

namespace itif::config {

// Errors: kInvalidArgument; the message starts with `path` and names the contradicting keys or the
// invalid value.
Status check(const Config& config, const std::string& path);

}  // namespace itif::config
