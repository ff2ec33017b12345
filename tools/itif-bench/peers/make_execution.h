// The execution modes by name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "peers/execution.h"
#include "peers/workload.h"

namespace itif::bench {

// In the order of the thesis's tables.
std::span<const std::string_view> execution_modes(const Workload& workload);
// Errors: those of the device; kUnsupported, a dtype that this CPU lacks; kResourceExhausted, also
// if a tenant's process ended.
Result<std::unique_ptr<Execution>> make_execution(std::string_view mode, const Workload& workload);

}  // namespace itif::bench
