// Tries a plain GEMM of each shape when the shape is prepared. A GPU whose cuBLAS has no plain GEMM
// of a model's shapes cannot serve the model, and the error should appear before its group starts.
// All other calls need no trial, because simpler ones can replace them.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <tuple>

#include "device/cuda/gemm/blas.h"
#include "device/cuda/memory/memory.h"
#include "device/device.h"

namespace itif::device::cuda {

// A device has one. Thread-safe.
class GemmTrials {
 public:
  explicit GemmTrials(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  ~GemmTrials() { close(); }
  // Multiplies one row, and a few, once per shape. Errors: kUnsupported, naming the shape, its
  // types and cuBLAS's status; kResourceExhausted, kInternal.
  // zeros: device memory that takes the place of the weight.
  Status try_out(const ComputeTypes& types, const GemmShape& shape, const void* zeros);
  // Call before a device reset.
  void close() noexcept;

 private:
  Status open();
  Status multiply(const ComputeTypes& types, const GemmShape& shape, const void* zeros);

  const std::shared_ptr<Budget> budget_;
  std::mutex mutex_;
  const Blas* blas_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::set<std::tuple<uint32_t, uint32_t, bool>> done_;  // n, k, f32_out
};

}  // namespace itif::device::cuda
