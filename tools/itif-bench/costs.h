// What a group measures of its backbone's GEMMs when it starts: benches choose by the same tables.
#pragma once

#include <memory>

#include "base/error.h"
#include "device/device.h"
#include "model/spec.h"
#include "plan/cost_tables.h"
#include "runtime/profiler.h"

namespace itif::bench {

// Once of the same device, backbone and options. One thread at a time. Errors: those of the device.
Result<std::shared_ptr<const plan::CostTables>> measure_costs(
    device::Device& device, device::Stream& stream, const model::BackboneSpec& spec,
    const runtime::ProfileOptions& options);

}  // namespace itif::bench
