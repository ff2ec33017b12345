// Durations and sizes as people write them: "25ms", "1.5s", "250us", "64KiB", "2GiB".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace itif {

// Nanoseconds of "<number><ns|us|ms|s|m|h>". Errors: kInvalidArgument, with the text and the units.
Result<uint64_t> parse_duration_ns(std::string_view text);
// "25 ms", "1.50 s": three significant digits, the largest unit that keeps the number ≥ 1.
std::string format_duration_ns(uint64_t ns);
// Bytes of "<number>[B|KiB|MiB|GiB|KB|MB|GB]". Errors: kInvalidArgument.
Result<uint64_t> parse_bytes(std::string_view text);
std::string format_bytes(uint64_t bytes);

}  // namespace itif
