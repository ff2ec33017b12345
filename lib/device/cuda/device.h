// The CUDA device: cuBLAS GEMMs and our own operators (kernels/cuda). Builds without the CUDA
// toolkit link no_cuda.cc instead.
#pragma once

#include <memory>

#include "device/device.h"

namespace itif::device {

// Errors: kUnsupported (the GPU, driver or cuBLAS is missing, too old or unavailable),
// kInvalidArgument (unknown dtype).
Result<std::unique_ptr<Device>> open_cuda_device(const DeviceOptions& options);

}  // namespace itif::device
