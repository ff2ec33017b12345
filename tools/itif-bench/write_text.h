// Writing a file whole: results, reports, plots' data and scripts.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace itif::bench {

// Errors: kPermission, it cannot be opened; kResourceExhausted, not all of it could be written.
Status write_text(const std::string& path, std::string_view text);

}  // namespace itif::bench
