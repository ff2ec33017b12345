// Mode mps: a process per tenant.
#pragma once

#include <memory>
#include <string>

#include "peers/execution.h"
#include "peers/workload.h"

namespace itif::bench {

Result<std::unique_ptr<Execution>> make_mps(const Workload& workload);

// The main function of a tenant's process. Reads commands from standard input, one byte each, and
// answers on standard output. Returns the exit status.
int run_tenant_process(const std::string& workload, const std::string& tenant);

}  // namespace itif::bench
