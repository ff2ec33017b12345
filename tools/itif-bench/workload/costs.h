// The GEMM cost tables that a group measures when it starts; benches schedule GEMMs by the same
// tables.
#pragma once

#include <memory>

#include "backbone/fusion_mode.h"
#include "base/error.h"
#include "device/device.h"
#include "model/spec.h"
#include "plan/cost_tables.h"
#include "runtime/cost/profiler.h"

namespace itif::bench {

// Measures the costs on the first call for a device, backbone and options; later calls return the
// same tables. Not thread-safe. Errors: those of the device.
Result<std::shared_ptr<const plan::CostTables>> measure_costs(
    device::Device& device, device::Stream& stream, const model::BackboneSpec& spec,
    backbone::FusionMode fusion_mode, const runtime::ProfileOptions& options);

}  // namespace itif::bench
