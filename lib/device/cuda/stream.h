// A stream of launches on the GPU.
#pragma once

#include <memory>

#include "device/cuda/cudnn.h"
#include "device/cuda/host_memory.h"
#include "device/cuda/memory.h"
#include "device/device.h"

namespace itif::device::cuda {

struct StreamParts {
  DType compute = DType::kF32;
  uint32_t num_multiprocessors = 1;
  std::shared_ptr<Budget> budget;
  std::shared_ptr<RegisteredMemory> registered;
  const Cudnn* cudnn = nullptr;  // which attends, if it is given
  bool cudnn_only = false;       // and nobody else
};

// Errors: kResourceExhausted, kInternal.
Result<std::unique_ptr<Stream>> make_stream(const StreamParts& parts, const StreamLimits& limits,
                                            const StreamOptions& options);

}  // namespace itif::device::cuda
