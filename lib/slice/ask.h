// A verdict of batch control about a group's share of the device.
#pragma once

#include <cstdint>

namespace itif::slice {

enum class Ask : uint8_t { kNothing, kMore, kLess };

}  // namespace itif::slice
