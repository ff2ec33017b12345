// Runs the whole-model tests on the CUDA device, on the CPU.
#include "support/tested_device.h"

#include <cstdlib>

#include "device/cuda/device.h"

namespace itif::testing {

size_t max_cases() {
#ifdef ITIF_FEW_CASES
  return 6;
#else
  return SIZE_MAX;
#endif
}

Result<std::unique_ptr<device::Device>> open_tested_device(const std::string& dtype) {
  const char* attention = std::getenv("ITIF_TESTED_ATTENTION");
  return device::open_cuda_device(
      {.kind = "cuda", .dtype = dtype, .attention = attention == nullptr ? "itif" : attention});
}

}  // namespace itif::testing
