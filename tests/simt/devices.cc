// The devices of the kernel suite: the CUDA device, on the CPU.
#include "device/cuda/device.h"
#include "fixture.h"

namespace itif::kernels {

std::vector<DeviceCase> device_cases() {
  return {
      {"CudaF32", {.kind = "cuda", .dtype = "f32"}},
      {"CudaBf16", {.kind = "cuda", .dtype = "bf16"}},
      {"CudaF16", {.kind = "cuda", .dtype = "f16"}},
  };
}

std::vector<DeviceCase> attention_cases() {
  auto cases = device_cases();
  cases.push_back({"CudnnBf16", {.kind = "cuda", .dtype = "bf16", .attention = "cudnn"}});
  cases.push_back({"CudnnF16", {.kind = "cuda", .dtype = "f16", .attention = "cudnn"}});
  return cases;
}

Result<std::unique_ptr<device::Device>> open_case(const DeviceCase& one) {
  return device::open_cuda_device(one.options);
}

}  // namespace itif::kernels
