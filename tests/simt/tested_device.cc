// Whole models on the CUDA device, on the CPU.
#include "support/tested_device.h"

#include "device/cuda/device.h"

namespace itif::testing {

Result<std::unique_ptr<device::Device>> open_tested_device(const std::string& dtype) {
  return device::open_cuda_device({.kind = "cuda", .dtype = dtype});
}

}  // namespace itif::testing
