// How kernels are put onto a stream: all of them through Launcher, which counts them and keeps the first error.
// Both compilers understand it: nvcc's, and the host's over tests/simt.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tensor/dtype.h"

namespace itif::kernels::cuda {

struct Grid {
  dim3 blocks;
  dim3 threads;  // a block's
  size_t shared_bytes = 0;
};

constexpr uint32_t div_up(uint32_t value, uint32_t by) {
  return (value + by - 1) / by;
}

class Launcher {
 public:
  // `num_multiprocessors`: what fills the device.
  Launcher(cudaStream_t stream, DType activation, uint32_t num_multiprocessors)
      : stream_(stream), activation_(activation), num_multiprocessors_(num_multiprocessors) {}

  // An empty grid is nothing to do.
  template <class... Parameters, class... Arguments>
  void operator()(const Grid& grid, void (*kernel)(Parameters...), Arguments&&... arguments) const {
    if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
    cudaLaunchConfig_t config{};
    config.gridDim = grid.blocks;
    config.blockDim = grid.threads;
    config.dynamicSmemBytes = grid.shared_bytes;
    config.stream = stream_;
    keep(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
    ++num_launches_;
  }
  void keep(cudaError_t error) const {
    if (error_ == cudaSuccess) error_ = error;
  }

  cudaStream_t stream() const { return stream_; }
  DType activation() const { return activation_; }
  uint32_t num_multiprocessors() const { return num_multiprocessors_; }
  uint64_t num_launches() const { return num_launches_; }
  // The first since it was last asked.
  cudaError_t take_error() const { return std::exchange(error_, cudaSuccess); }

 private:
  cudaStream_t stream_;
  DType activation_;
  uint32_t num_multiprocessors_;
  mutable uint64_t num_launches_ = 0;
  mutable cudaError_t error_ = cudaSuccess;
};

}  // namespace itif::kernels::cuda
