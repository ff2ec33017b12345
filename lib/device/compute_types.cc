#include "device/compute_types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace itif::device {

std::vector<std::string> compute_names() {
  std::vector<std::string> names;
  for (const NamedComputeTypes& named : kComputeTypes) names.emplace_back(named.name);
  return names;
}

Result<ComputeTypes> read_compute_types(const std::string& dtype, const ComputeTypes& automatic) {
  if (dtype == "auto") return automatic;
  for (const NamedComputeTypes& named : kComputeTypes)
    if (named.name == dtype) return named.types;
  return fail(Code::kInvalidArgument, fmt::format("dtype '{}' is none of auto, {}", dtype,
                                                  fmt::join(compute_names(), ", ")));
}

}  // namespace itif::device
