// Functions of the CUDA driver, found by name at run time. Programs then start without a driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <fmt/format.h>

#include "device/cuda/driver/error.h"

namespace itif::device::cuda {

// Finds a function with the interface that it has since CUDA version `since` (12000: 12.0). Errors:
// kUnsupported, the driver has no such function; kInternal.
template <class Function>
Status find_entry_point(const char* name, unsigned since, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  ITIF_TRY(check(cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &result),
                 name));
  if (found == nullptr)
    return fail(Code::kUnsupported, fmt::format("the driver has no {}: it is too old", name));
  function = reinterpret_cast<Function>(found);
  return {};
}

}  // namespace itif::device::cuda
