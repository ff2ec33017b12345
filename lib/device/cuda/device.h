// The GPU as a device: cuBLAS's GEMMs, our own operators (kernels/cuda).
#pragma once

#include <memory>

#include "device/device.h"

namespace itif::device {

// Errors: kUnsupported (no GPU, no driver, too old a one; a dtype that it does not compute),
// kInvalidArgument (dtype's name).
Result<std::unique_ptr<Device>> open_cuda_device(const DeviceOptions& options);

}  // namespace itif::device
