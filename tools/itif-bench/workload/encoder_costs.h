// Cost tables for the planners, measured by running an encoder.
#pragma once

#include "base/error.h"
#include "device/device.h"
#include "model/spec.h"
#include "plan/cost_tables.h"
#include "workload/encoder_setup.h"

namespace itif::bench {

// Median of `samples` forward passes, after one warm-up pass.
Result<double> forward_ns(Encoder& encoder, const Encoder::Batch& batch, uint32_t samples);

// Tables A and B (ITIF) of one layer of `spec`, attention included, for lengths up to 128 and
// batches up to 64 requests. B is over 4 tenants, and the device decides how to merge their GEMMs.
// Both are monotone.
Result<plan::CostTables> measure_encoder_costs(device::Device& device, model::BackboneSpec spec,
                                               uint32_t samples);

}  // namespace itif::bench
