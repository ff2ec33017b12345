// Lists of CPUs as text: "0-3,8", as in the kernel's interfaces (cpuset(7), "List format").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace itif {

inline constexpr unsigned kMaxCpu = 1023;

// REQUIRES: ascending, without repetition.
std::string format_cpus(std::span<const unsigned> cpus);
// Returns the CPUs, ascending and without repetition. Errors: kInvalidArgument, with the part of
// the text that is no CPU up to kMaxCpu and no range of CPUs.
Result<std::vector<unsigned>> parse_cpus(std::string_view text);

}  // namespace itif
