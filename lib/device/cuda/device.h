// The GPU as a device: cuBLAS's GEMMs, our own operators (kernels/cuda). A build without the CUDA toolkit has
// no_cuda.cc instead.
#pragma once

#include <memory>

#include "device/device.h"

namespace itif::device {

// Errors: kUnsupported (no GPU, driver or cuBLAS, too old ones, or a GPU that is not to be had), kInvalidArgument
// (dtype's name).
Result<std::unique_ptr<Device>> open_cuda_device(const DeviceOptions& options);

}  // namespace itif::device
