// The operators of the device of plain loops, each as kernels/args.h says it and as slow as it is plain.
#pragma once

#include <memory>

#include "support/plain_device.h"

namespace itif::testing {

std::unique_ptr<device::Stream> make_plain_stream(std::shared_ptr<PlainDeviceState> state,
                                                  const device::StreamLimits& limits);

}  // namespace itif::testing
