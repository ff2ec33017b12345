// Builds without the CUDA toolkit.
#include "device/cuda_probe.h"

namespace itif::device {

std::string why_no_cuda() {
  return "this build has no CUDA";
}

}  // namespace itif::device
