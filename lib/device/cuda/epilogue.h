// GEMMs that add bias and activation before a result is rounded and written: cuBLASLt's epilogues, of one tenant's rows
// a call.
//
// Those that come out as from kernels of our own:
// - ReLU, with and without a bias, and a bias alone.
// - GELU where it is the tanh form, which cuBLASLt's is, and the result has 16 bits: how well cuBLASLt approximates it
//   in f32 is written nowhere. The erf form differs from it by up to 5e-4, a twentieth of GELU(-2.7): it stays a launch
//   behind the GEMM, as do activations that cuBLASLt lacks.
// A bias must be of the result's type (the table of types of cublasLtMatmul): an f32 bias goes with f32 results alone.
// With 16-bit results goes a copy that Device::pack_bias() has put behind the packed weights: rounded to that type, as
// they are.
//
// Algorithms are chosen when a shape is prepared, for rungs of row counts. Serving asks for none and allocates nothing:
// descriptors stand on the stack.
#pragma once

#include <mutex>
#include <vector>

#include "device/cuda/blas.h"
#include "device/device.h"

namespace itif::device::cuda {

cudaDataType type_of(DType type);

// Packed: the weights, row-major, and where has_packed_bias() says so, a bias of their type behind them.
bool has_packed_bias(DType compute, const GemmShape& shape);
size_t packed_bias_offset(DType compute, const GemmShape& shape);
size_t packed_bytes(DType compute, const GemmShape& shape);

// What every stream's GEMMs have for these calls, at the least.
inline constexpr size_t kEpilogueWorkspaceBytes = size_t{4} << 20;

// One shape's, for any number of rows up to what it was prepared for.
class EpilogueGemm {
 public:
  struct Call {
    uint32_t rows = 0;
    const void *weight = nullptr, *bias = nullptr, *a = nullptr;
    void* out = nullptr;
  };

  // None runs: the shape has no epilogue, or cuBLASLt nothing for it.
  EpilogueGemm() = default;
  EpilogueGemm(const Blas& blas, cublasLtHandle_t handle, DType compute, const GemmShape& shape,
               uint32_t max_rows);

  bool runs(const Call& call) const;
  // REQUIRES: runs(call); kEpilogueWorkspaceBytes of workspace.
  cublasStatus_t run(const Blas& blas, cublasLtHandle_t handle, const Call& call, void* workspace,
                     cudaStream_t stream) const;

 private:
  struct Rung {
    uint32_t most_rows = 0;
    cublasLtMatmulAlgo_t algo = {};
    bool is_there = false;
  };
  struct Problem;
  bool describe(const Blas& blas, uint32_t rows, const void* bias, Problem& problem) const;
  Rung choose(const Blas& blas, cublasLtHandle_t handle, uint32_t least_rows,
              uint32_t most_rows) const;
  // What addresses are multiples of, at least: of a row's bytes.
  static uint32_t alignment(size_t row_bytes);

  GemmShape shape_;
  cublasLtEpilogue_t epilogue_ = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType type_ = CUDA_R_32F, type_out_ = CUDA_R_32F;
  uint32_t weight_alignment_ = 1, out_alignment_ = 1;
  std::vector<Rung> rungs_;
};

// Prepares shapes for a device. Thread-safe.
class Epilogues {
 public:
  ~Epilogues() { close(); }
  EpilogueGemm prepare(DType compute, const GemmShape& shape, uint32_t max_rows);
  // Before the device is reset.
  void close() noexcept;

 private:
  std::mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace itif::device::cuda
