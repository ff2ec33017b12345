// How many tenants, and how many of their tokens, a pass may have before a CPU's caches no longer
// hold what the pass reads again.
//
// Weights: a backbone whose layers share weights (ALBERT) reads them many times in a pass. A CPU
// finds them in its last-level cache if the pass has few tenants. With all tenants in one pass,
// each layer reads all their weights from memory: measured with ALBERT-large in bf16 (25 MB), 32
// MB of cache, and 4 or 16 tenants of 1 to 16 tokens, such a pass took 1.15 to 1.3 times as long
// as one pass per tenant (`itif-bench few-tokens`). This holds in the thesis's fusion mode, too:
// its Algorithm 2 then plans each tenant's part of the batch. With all tenants in one pass, `itif`
// took 1.43 times as long as one tenant after another.
//
// Activations: an operator reads what the one before it wrote. A core finds it in its own cache if
// the pass has few rows. One pass for all tenants took 1.06 times as long as sequential tenants
// (BERT-base, 3 tenants of 128 tokens, 1 MB of cache per core); passes that fit took 0.98 times as
// long (`itif-bench tenants`). Each tenant's weights are read once either way.
#pragma once

#include <cstdint>
#include <span>

#include "backbone/family.h"
#include "device/device.h"
#include "plan/plan.h"

namespace itif::runtime {

// As plan::PlanLimits has them.
struct PassLimits {
  uint32_t max_tenants = 0;        // of a pass; 0: any number
  uint32_t max_shared_tokens = 0;  // of a pass of several tenants; 0: any number

  // Returns `limits` with these two.
  plan::PlanLimits added_to(plan::PlanLimits limits) const noexcept {
    limits.max_pass_tenants = max_tenants;
    limits.max_shared_tokens = max_shared_tokens;
    return limits;
  }
};

// Returns the limits for a backbone with these GEMMs. max_tenants is 0 if layers share no weights,
// if one tenant's weights exceed the cache, and on a GPU; max_shared_tokens if the cores' caches
// are not known, and on a GPU.
PassLimits pass_limits(const device::DeviceInfo& device,
                       std::span<const backbone::GemmUse> gemms) noexcept;

}  // namespace itif::runtime
