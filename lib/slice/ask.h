// Between batch control and the tuning of a group's share of the device.
#pragma once

#include <cstdint>

namespace itif::slice {

// The part of the objective that a batch may take (sched/batch_control.h).
inline constexpr double kBatchAim = 0.4;

// A verdict of batch control about the share.
enum class Ask : uint8_t { kNothing, kMore, kLess };

}  // namespace itif::slice
