// Replaces lib/device/cuda/cudnn/cudnn.cc.
#include "cudnn.h"

namespace itif::device::cuda {

Result<const Cudnn*> load_cudnn() {
  if (simt::cudnn.get_version() == 0)
    return fail(Code::kUnsupported, "cuDNN cannot be loaded: it is not simulated");
  return &simt::cudnn;
}

}  // namespace itif::device::cuda
