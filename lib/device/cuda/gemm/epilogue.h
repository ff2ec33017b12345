// GEMMs with cuBLASLt epilogues, which add bias and activation before the result is rounded and
// written. A call covers one tenant's rows.
//
// Only epilogues with the same results as our own kernels are used:
// - A bias alone, and ReLU with or without a bias.
// - Tanh GELU with 16-bit results. cuBLASLt's GELU is the tanh form; its accuracy in f32 is not
//   documented.
//
// Other activations, erf GELU included, are a separate launch after the GEMM. Erf GELU differs from
// the tanh form by up to 5e-4, a twentieth of GELU(-2.7).
//
// The bias must have the result's type (the table of types of cublasLtMatmul). GEMMs with f32
// results take the f32 bias. Those with 16-bit results take the copy that Device::pack_bias()
// stores after the packed weights, rounded to 16 bits like the weights.
//
// Algorithms are chosen when a shape is prepared, one per rung of row counts. Serving searches only
// if cuBLASLt rejects that algorithm. It allocates nothing: descriptors are on the stack.
#pragma once

#include <mutex>
#include <vector>

#include "device/cuda/gemm/blas.h"
#include "device/device.h"

namespace itif::device::cuda {

cudaDataType type_of(DType type);

// Alpha and beta of every GEMM.
inline constexpr float kOne = 1, kZero = 0;

// Returns true if the shape's epilogue adds a bias of 16 bits.
bool adds_narrow_bias(const ComputeTypes& types, const GemmShape& shape);

// The least workspace that every stream has for these calls.
inline constexpr size_t kEpilogueWorkspaceBytes = size_t{4} << 20;

// The GEMMs of one shape, for up to max_rows rows.
class EpilogueGemm {
 public:
  struct Call {
    uint32_t rows = 0;
    uint32_t processors = 0;  // multiprocessors that it runs on; 0: all
    const void *weight = nullptr, *bias = nullptr, *a = nullptr;
    void* out = nullptr;
  };

  // Empty: runs() is false. The shape has no epilogue, or cuBLASLt no algorithm for it.
  EpilogueGemm() = default;
  // `processors`: numbers of multiprocessors other than all that calls will run on.
  EpilogueGemm(const Blas& blas, cublasLtHandle_t handle, const ComputeTypes& types,
               const GemmShape& shape, uint32_t max_rows, std::span<const uint32_t> processors);

  bool runs(const Call& call) const;
  // REQUIRES: runs(call); kEpilogueWorkspaceBytes of workspace.
  cublasStatus_t run(const Blas& blas, cublasLtHandle_t handle, const Call& call, void* workspace,
                     cudaStream_t stream) const;

 private:
  struct Rung {
    uint32_t max_rows = 0;
    cublasLtMatmulAlgo_t algo = {};
    bool is_there = false;
  };
  struct Problem;
  struct Rungs {
    uint32_t processors = 0;
    std::vector<Rung> all;  // by max_rows
  };
  bool describe(const Blas& blas, uint32_t rows, uint32_t processors, const void* bias,
                Problem& problem) const;
  Rung choose(const Blas& blas, cublasLtHandle_t handle, uint32_t min_rows, uint32_t max_rows,
              uint32_t processors) const;
  const Rung* rung_of(const Call& call) const;  // nullptr: none has so many rows
  // Alignment of rows of row_bytes bytes: their largest power-of-2 divisor, at most 16.
  static uint32_t alignment(size_t row_bytes);

  GemmShape shape_;
  cublasLtEpilogue_t epilogue_ = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType type_weight_ = CUDA_R_32F, type_a_ = CUDA_R_32F, type_out_ = CUDA_R_32F;
  uint32_t weight_alignment_ = 1, a_alignment_ = 1, out_alignment_ = 1;
  std::vector<Rungs> rungs_;  // the first for all multiprocessors
};

// Prepares shapes for a device. Thread-safe.
class Epilogues {
 public:
  // `processors`: as EpilogueGemm.
  explicit Epilogues(std::vector<uint32_t> processors) : processors_(std::move(processors)) {}
  ~Epilogues() { close(); }
  EpilogueGemm prepare(const ComputeTypes& types, const GemmShape& shape, uint32_t max_rows);
  // Call before a device reset.
  void close() noexcept;
  // Replaces the numbers of multiprocessors, for the shapes that are prepared later.
  void set_processors(std::vector<uint32_t> processors);

 private:
  std::mutex mutex_;
  std::vector<uint32_t> processors_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace itif::device::cuda
