// Parses and formats durations and sizes: "25ms", "1.5s", "250us", "64KiB", "2GiB".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace itif {

// Parses "<number><ns|us|ms|s|m|h>" into nanoseconds. Errors: kInvalidArgument (names the text and
// the units).
Result<uint64_t> parse_duration_ns(std::string_view text);
// Formats as "25.0 ms" or "1.50 s": three significant digits, the largest unit with a number ≥ 1.
std::string format_duration_ns(uint64_t ns);
// Parses "<number>[B|KiB|MiB|GiB|KB|MB|GB]" into bytes. Errors: kInvalidArgument.
Result<uint64_t> parse_bytes(std::string_view text);
std::string format_bytes(uint64_t bytes);

}  // namespace itif
