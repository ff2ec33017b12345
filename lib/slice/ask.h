// The request by which batch control (sched/batch_control.h) asks the tuning of shares
// (share_demand.h) for a larger or a smaller share of the device.
#pragma once

#include <cstdint>

namespace itif::slice {

// A batch may take this part of the latency objective (sched/batch_control.h).
inline constexpr double kBatchAim = 0.4;

// Batch control asks for the same share, a larger or a smaller one.
enum class Ask : uint8_t { kNothing, kMore, kLess };

}  // namespace itif::slice
