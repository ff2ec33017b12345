// GEMMs of tenants' rows through cuBLAS. Activations and weights are row-major; out = a · Wᵀ is, column by column,
// outᵀ = W · aᵀ.
//
// In turn, a call a range. At once, one call: strided where ranges are equally long and their slots equally far
// apart, of pointers where they are equally long, else grouped. Bias and activation are a launch behind them, for
// all tenants (model weights rotation): no epilogue of a grouped call finds each row's tenant.
#pragma once

#include <cublas_v2.h>

#include <vector>

#include "device/cuda/plan_memory.h"
#include "device/device.h"

namespace itif::device::cuda {

// What a GEMM was prepared for: cuBLAS needs nothing made, but what is not prepared is a defect here, too.
struct PreparedShape final : kernels::PreparedGemm {
  explicit PreparedShape(const GemmShape& shape) : shape(shape) {}
  const GemmShape shape;
};

class Gemms {
 public:
  // `most_ranges` of a launch. Errors: kResourceExhausted, kInternal.
  static Result<std::unique_ptr<Gemms>> make(DType compute, cudaStream_t stream,
                                             std::shared_ptr<Budget> budget, uint32_t most_ranges);
  ~Gemms();
  Gemms(const Gemms&) = delete;
  Gemms& operator=(const Gemms&) = delete;

  // Without bias and activation.
  Status run(const kernels::cuda::Launcher& launch, PlanMemory& plan,
             const kernels::GroupedGemm& args);
  // The thesis's form of attention: products of activations.
  Status run(const kernels::BatchedGemm& args);

 private:
  Gemms(DType compute) : compute_(compute) {}
  Status in_turn(const kernels::GroupedGemm& args);
  Status strided(const kernels::GroupedGemm& args);
  Status by_pointers(const kernels::cuda::Launcher& launch, PlanMemory& plan,
                     const kernels::GroupedGemm& args, bool are_equal);
  const std::byte* input(const kernels::GroupedGemm& args, const kernels::RowRange& range) const;
  std::byte* output(const kernels::GroupedGemm& args, const kernels::RowRange& range) const;

  const DType compute_;
  cublasHandle_t handle_ = nullptr;
  std::unique_ptr<Buffer> workspace_;
  // Of a grouped call, by range.
  struct Groups {
    std::vector<cublasOperation_t> trans_w, trans_a;
    std::vector<int> m, n, k, ldw, lda, ldc, sizes;
    std::vector<float> one, zero;
    std::vector<const void*> weights, inputs;
    std::vector<void*> outputs;
  } groups_;
};

}  // namespace itif::device::cuda
