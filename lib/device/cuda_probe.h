// Whether this build and machine could use CUDA. The build takes cuda_probe.cc or no_cuda.cc.
#pragma once

#include <string>

namespace itif::device {

// Why open_device does not use CUDA here, as it stands in logs after "CUDA is not used: ".
std::string why_no_cuda();

}  // namespace itif::device
