// Functions shared by execution.cc and execution_mps.cc.
#pragma once

#include "device/device.h"
#include "peers/execution.h"

namespace itif::bench {

// Threads of a tenant if all tenants run concurrently: each has one, and those that are left go
// where the tokens per thread are most.
uint32_t threads_of_tenant(const Workload& workload, uint32_t tenant);
Result<std::unique_ptr<device::Device>> open_device(const Workload& workload, uint32_t threads);
Result<std::unique_ptr<Execution>> make_mps(const Workload& workload);

}  // namespace itif::bench
