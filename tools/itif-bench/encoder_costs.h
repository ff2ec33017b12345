// Cost tables of an encoder measured by running it: what the planners choose by.
#pragma once

#include "base/error.h"
#include "device/device.h"
#include "encoder_setup.h"
#include "model/spec.h"
#include "plan/cost_tables.h"

namespace itif::bench {

// The median of `samples` forward passes, after one that does not count.
Result<double> forward_ns(Encoder& encoder, const Encoder::Batch& batch, uint32_t samples);

// A and B of one layer of `spec`, attention included, at lengths up to 128 and batches up to 64
// requests; B over 4 tenants, whose GEMMs the device merges as it sees fit. Monotone.
Result<plan::CostTables> measure_encoder_costs(device::Device& device, model::BackboneSpec spec,
                                               uint32_t samples);

}  // namespace itif::bench
