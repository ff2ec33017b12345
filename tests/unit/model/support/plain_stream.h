// The operators of PlainDevice: direct loops that follow kernels/args.h, not optimised.
#pragma once

#include <memory>

#include "support/plain_device.h"

namespace itif::testing {

std::unique_ptr<device::Stream> make_plain_stream(std::shared_ptr<PlainDeviceState> state,
                                                  const device::StreamLimits& limits);

}  // namespace itif::testing
