// Kernel launches. All go through Launcher, which adds them to a LaunchLog and keeps the first
// error. Both nvcc and the host's compiler (over tests/simt) accept this file.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/cuda/launch_log.h"
#include "tensor/dtype.h"

namespace itif::kernels::cuda {

struct Grid {
  dim3 blocks;
  dim3 threads;  // per block
  size_t shared_bytes = 0;
};

// The multiprocessors of a device.
struct Processors {
  uint32_t count = 1;
  uint32_t max_threads = 1024, max_blocks = 16;  // resident on each
};

constexpr uint32_t div_up(uint32_t value, uint32_t by) {
  return (value + by - 1) / by;
}

class Launcher {
 public:
  // `log` must outlive the launcher. `processors`: of the device, to size grids that fill it.
  Launcher(LaunchLog& log, DType activation, const Processors& processors)
      : log_(&log), activation_(activation), processors_(processors) {}

  // Ignores an empty grid.
  template <class... Parameters, class... Arguments>
  void operator()(const Grid& grid, void (*kernel)(Parameters...), Arguments&&... arguments) const {
    if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
    using Call = KernelCall<Parameters...>;
    log_->add<Call>(&Call::make, {grid, kernel, {static_cast<Parameters>(arguments)...}},
                    &Call::load);
    log_->add_key(kernel);
    for (const dim3& size : {grid.blocks, grid.threads})
      for (const unsigned edge : {size.x, size.y, size.z}) log_->add_key(edge);
    log_->add_key(grid.shared_bytes);
    (add_scalar(static_cast<Parameters>(arguments)), ...);
  }
  void keep(cudaError_t error) const {
    if (error_ == cudaSuccess) error_ = error;
  }

  LaunchLog& log() const { return *log_; }
  DType activation() const { return activation_; }
  const Processors& processors() const { return processors_; }
  // Sizes the grids of later launches for other multiprocessors.
  void use_processors(const Processors& processors) { processors_ = processors; }
  cudaError_t error() const { return error_; }
  // Returns the first error and clears it.
  cudaError_t take_error() const { return std::exchange(error_, cudaSuccess); }

 private:
  // Structures have padding. They follow from the operator's arguments, which the stream's key has.
  template <class T>
  void add_scalar(const T& argument) const {
    if constexpr (std::is_arithmetic_v<T> || std::is_pointer_v<T>) log_->add_key(argument);
  }
  template <class... Parameters>
  struct KernelCall {
    Grid grid;
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;

    static cudaError_t make(const KernelCall& call, cudaStream_t stream) {
      cudaLaunchConfig_t config{};
      config.gridDim = call.grid.blocks;
      config.blockDim = call.grid.threads;
      config.dynamicSmemBytes = call.grid.shared_bytes;
      config.stream = stream;
      return std::apply(
          [&](const Parameters&... arguments) {
            return cudaLaunchKernelEx(&config, call.kernel, arguments...);
          },
          call.arguments);
    }
    // Asking for a kernel's attributes loads it. Source: CUDA's programming guide, "Lazy Loading".
    static cudaError_t load(const KernelCall& call, cudaStream_t) {
      cudaFuncAttributes attributes{};
      return cudaFuncGetAttributes(&attributes, call.kernel);
    }
  };

  LaunchLog* log_;
  DType activation_;
  Processors processors_;
  mutable cudaError_t error_ = cudaSuccess;
};

}  // namespace itif::kernels::cuda
