// Builds with the CUDA toolkit: asks the driver.
#include "device/cuda_probe.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace itif::device {

std::string why_no_cuda() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess)
    return cudaGetErrorString(error);  // "no CUDA-capable device is detected"
  if (count == 0) return "there is no CUDA device";
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess)
    return "the CUDA device does not answer";
  return fmt::format("{} is there, but this version of itif computes on the host", properties.name);
}

}  // namespace itif::device
