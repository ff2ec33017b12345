// Writes text files: results, reports, data and scripts of plots.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace itif::bench {

// Errors: kPermission, the file cannot be opened; kResourceExhausted, writing failed.
Status write_text(const std::string& path, std::string_view text);

}  // namespace itif::bench
