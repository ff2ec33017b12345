// What execution.cc and execution_mps.cc share.
#pragma once

#include "device/device.h"
#include "execution.h"

namespace itif::bench {

// Of each tenant where all run at once.
uint32_t threads_of_tenant(const Workload& workload);
Result<std::unique_ptr<device::Device>> open_device(const Workload& workload, uint32_t threads);
Result<std::unique_ptr<Execution>> make_mps(const Workload& workload);

}  // namespace itif::bench
