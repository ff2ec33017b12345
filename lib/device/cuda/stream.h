// Streams of the CUDA device.
#pragma once

#include <memory>

#include "device/cuda/cudnn/cudnn.h"
#include "device/cuda/memory/host_memory.h"
#include "device/cuda/memory/memory.h"
#include "device/cuda/slices/slices.h"
#include "device/device.h"
#include "kernels/cuda/launch.h"

namespace itif::device::cuda {

struct StreamParts {
  int ordinal = 0;  // the GPU, as the CUDA runtime counts them
  ComputeTypes compute = {};
  kernels::cuda::Processors processors = {};
  std::shared_ptr<Budget> budget;
  std::shared_ptr<Budget> graph_budget;  // of CUDA graphs
  std::shared_ptr<RegisteredMemory> registered;
  std::shared_ptr<Slices> slices;
  const Cudnn* cudnn = nullptr;  // nullptr: attention is ours
  bool cudnn_only = false;       // no fallback to our attention
};

// Errors: kResourceExhausted, kInternal.
Result<std::unique_ptr<Stream>> make_stream(const StreamParts& parts, const StreamLimits& limits,
                                            const StreamOptions& options);

}  // namespace itif::device::cuda
