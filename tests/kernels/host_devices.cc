// The devices of the kernel suite on the host.
#include "fixture.h"

namespace itif::kernels {

std::vector<DeviceCase> device_cases() {
  return {
      {"HostF32", {.kind = "host", .dtype = "f32", .num_threads = 2}},
      {"HostF32OneThread", {.kind = "host", .dtype = "f32", .num_threads = 1}},
      {"HostBf16", {.kind = "host", .dtype = "bf16", .num_threads = 2}},
  };
}

std::vector<DeviceCase> attention_cases() {
  return device_cases();
}

Result<std::unique_ptr<device::Device>> open_case(const DeviceCase& one) {
  return device::open_device(one.options);
}

}  // namespace itif::kernels
