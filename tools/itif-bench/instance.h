// One instance of a workload's backbone with the weights of some tenants: what execution modes run for
// all tenants at once, or one of a tenant each.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "execution.h"
#include "run_profile.h"

namespace itif::bench {

struct TenantSpan {
  uint32_t first = 0;
  uint32_t count = 1;
};

class Instance {
 public:
  virtual ~Instance() = default;
  // Computes all requests of these tenants together once, and waits. REQUIRES: all of the instance's
  // tenants, or one.
  virtual Status run(const TenantSpan& tenants) = 0;
  // Of such a run, per tenant as many values: to compare instances by.
  virtual Result<std::vector<float>> states(const TenantSpan& tenants) = 0;
  // Such a run operator by operator; from the first on, launches are timed. Errors: kUnsupported, a decoder.
  virtual Result<RunProfile> profile(const TenantSpan& tenants) = 0;
};

// From the thread that runs it. `device` outlives it; weights are the same in every instance.
Result<std::unique_ptr<Instance>> make_instance(device::Device& device, const Workload& workload,
                                                const TenantSpan& tenants);
// Of device memory.
Result<uint64_t> weight_bytes_of_tenant(device::Device& device, const Workload& workload);

}  // namespace itif::bench
