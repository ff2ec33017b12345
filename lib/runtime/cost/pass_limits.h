// How many tenants a pass may have without reading shared weights from memory more than once.
//
// A backbone whose layers share weights (ALBERT) reads them many times in a pass. A CPU finds them
// in its cache if the pass has few tenants. With all tenants in one pass, each layer reads all
// their weights from memory: measured with ALBERT-large in bf16 (25 MB), 32 MB of cache, and 4 or
// 16 tenants of 1 to 16 tokens, such a pass took 1.15 to 1.3 times as long as one pass per tenant
// (`itif-bench few-tokens`).
//
// This holds in the thesis's fusion mode, too: its Algorithm 2 then plans each tenant's part of the
// batch. With all tenants in one pass, `itif` took 1.43 times as long as one tenant after another.
#pragma once

#include <cstdint>
#include <span>

#include "backbone/family.h"
#include "device/device.h"

namespace itif::runtime {

// Returns plan::PlanLimits::max_pass_tenants. `gemms`: those of the backbone. The result is 0 (no
// limit) if layers share no weights, if one tenant's weights exceed the cache, in fusion mode
// thesis, and on a GPU.
uint32_t max_pass_tenants(const device::DeviceInfo& device,
                          std::span<const backbone::GemmUse> gemms) noexcept;

}  // namespace itif::runtime
