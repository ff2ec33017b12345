// The cuBLAS handles of one itif stream in one context of the GPU, and the events by which its
// CUDA streams wait for each other.
#pragma once

#include <array>
#include <memory>

#include "device/cuda/driver/event.h"
#include "device/cuda/gemm/blas.h"
#include "device/cuda/slices/slices.h"

namespace itif::device::cuda {

struct BlasHandles {
  // For the calling thread's current context. Waits for the end of all captures. Errors:
  // kResourceExhausted, kInternal.
  static Result<std::unique_ptr<BlasHandles>> make();
  // REQUIRES: the context is current.
  ~BlasHandles();
  BlasHandles(const BlasHandles&) = delete;
  BlasHandles& operator=(const BlasHandles&) = delete;

  // By CUDA stream: see SliceStreams.
  std::array<cublasHandle_t, SliceStreams::kStreams> all = {};
  std::array<StreamEvent, SliceStreams::kStreams> reached;
  cublasLtHandle_t lt = nullptr;

 private:
  explicit BlasHandles(const Blas& blas) : blas_(blas) {}
  Status open();

  const Blas& blas_;
};

}  // namespace itif::device::cuda
