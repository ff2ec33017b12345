// Replaces the CUDA device in builds without the CUDA toolkit.
#include "device/cuda/device.h"

namespace itif::device {

Result<std::unique_ptr<Device>> open_cuda_device(const DeviceOptions&) {
  return fail(Code::kUnsupported, "this build has no CUDA");
}

}  // namespace itif::device
