// One instance of a workload's backbone with the weights of some tenants. An execution mode runs
// one instance for all tenants, or one instance per tenant.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "peers/run_profile.h"
#include "peers/workload.h"

namespace itif::bench {

struct TenantSpan {
  uint32_t first = 0;
  uint32_t count = 1;
};

class Instance {
 public:
  virtual ~Instance() = default;
  // Computes all requests of these tenants together once, and waits. REQUIRES: all tenants of the
  // instance, or one.
  virtual Status run(const TenantSpan& tenants) = 0;
  // Results of such a run, the same number of values per tenant, for comparing instances.
  virtual Result<std::vector<float>> states(const TenantSpan& tenants) = 0;
  // Profiles such a run by operator. All launches are timed from the first call on. Errors:
  // kUnsupported, a decoder.
  virtual Result<RunProfile> profile(const TenantSpan& tenants) = 0;
};

// Call it on the thread that will run the instance. A tenant's weights are the same in every
// instance. REQUIRES: `device` outlives the result.
Result<std::unique_ptr<Instance>> make_instance(device::Device& device, const Workload& workload,
                                                const TenantSpan& tenants);
// Device memory of one tenant's weights.
Result<uint64_t> weight_bytes_of_tenant(device::Device& device, const Workload& workload);

}  // namespace itif::bench
