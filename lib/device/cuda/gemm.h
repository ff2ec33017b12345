// GEMMs of tenants' rows through cuBLAS. Activations and weights are row-major; out = a · Wᵀ is, column by column,
// outᵀ = W · aᵀ.
//
// In turn, a call a range, spread over streams that join before the next launch. At once, one call: of pointers where
// ranges are equally long, else grouped; which weights they read then stands in the batch's plan memory, so that a
// graph serves all tenants, one range of few rows included. Large ones whose slots are equally far apart are strided,
// which needs no pointers. Bias and activation are a launch behind them, for all tenants (model weights rotation): no
// epilogue of a grouped call finds each row's tenant. Those in turn have one, where it does (epilogue.h).
#pragma once

#include <array>
#include <deque>
#include <span>
#include <vector>

#include "device/cuda/blas.h"
#include "device/cuda/epilogue.h"
#include "device/cuda/graphs.h"
#include "device/cuda/plan_memory.h"
#include "device/device.h"

namespace itif::device::cuda {

// The most rows of a batch whose launches count for more than its arithmetic: DeviceInfo::form_rows.
inline constexpr uint32_t kFormRows = 512;

// What a GEMM was prepared for. Without an epilogue cuBLAS needs nothing made, but what is not prepared is a defect.
struct PreparedShape final : kernels::PreparedGemm {
  PreparedShape(const GemmShape& shape, EpilogueGemm with_epilogue)
      : shape(shape), with_epilogue(std::move(with_epilogue)) {}
  const GemmShape shape;
  const EpilogueGemm with_epilogue;
};

class Gemms {
 public:
  // For launches on `stream`. Errors: kResourceExhausted, kInternal.
  static Result<std::unique_ptr<Gemms>> make(DType compute, cudaStream_t stream,
                                             std::shared_ptr<Budget> budget);
  ~Gemms();
  Gemms(const Gemms&) = delete;
  Gemms& operator=(const Gemms&) = delete;

  // Bias and activation only where has_epilogue(). REQUIRES: none writes what another reads or writes.
  Status run(const kernels::cuda::Launcher& launch, PlanMemory& plan, LaunchKey& key,
             std::span<const kernels::GroupedGemm> all);
  bool has_epilogue(const kernels::GroupedGemm& args) const;
  // The thesis's form of attention: products of activations.
  void run(const kernels::cuda::Launcher& launch, LaunchKey& key, const kernels::BatchedGemm& args);
  // What was logged has been made.
  void clear() noexcept { num_groups_ = 0; }

 private:
  // A stream and what cuBLAS needs for it. The first is the launches' own.
  struct Lane {
    cublasHandle_t handle = nullptr;
    cudaStream_t stream = nullptr;
    std::unique_ptr<Buffer> workspace;
    cudaEvent_t reached = nullptr;
  };
  static constexpr size_t kLanes = 4;
  // One result, or `count` of them at constant strides. In elements.
  struct Strided {
    Gemms* gemms = nullptr;
    size_t lane = 0;
    cublasOperation_t trans_w = CUBLAS_OP_T;
    int m = 0, n = 0, k = 0;
    const void *w = nullptr, *a = nullptr;
    void* out = nullptr;
    int ldw = 0;
    long long stride_w = 0, stride_a = 0, stride_out = 0;
    int count = 1;
    cudaDataType type_out = CUDA_R_32F;
  };
  // Of a grouped call, by range: host memory that lasts until it is made.
  struct Groups {
    std::vector<cublasOperation_t> trans_w, trans_a;
    std::vector<int> m, n, k, ldw, lda, ldc, sizes;
    std::vector<float> one, zero;
  };
  struct Pointers {
    Gemms* gemms = nullptr;
    int m = 0, n = 0, k = 0;         // of each, unless
    const Groups* groups = nullptr;  // says otherwise
    const void *const *weights = nullptr, *const *inputs = nullptr;
    void* const* outputs = nullptr;
    int count = 0;
    cudaDataType type_out = CUDA_R_32F;
  };
  struct WithEpilogue {
    Gemms* gemms = nullptr;
    size_t lane = 0;
    const EpilogueGemm* gemm = nullptr;
    EpilogueGemm::Call call;
  };
  struct Join {
    Gemms* gemms = nullptr;
    size_t num_lanes = 0;
  };

  Gemms(DType compute, const Blas& blas);
  Status open_lane(Lane& lane, const std::shared_ptr<Budget>& budget, size_t workspace_bytes);
  bool runs_in_turn(const kernels::GroupedGemm& args) const;
  Strided single(const kernels::GroupedGemm& args, const kernels::RowRange& range);
  EpilogueGemm::Call with_epilogue(const kernels::GroupedGemm& args,
                                   const kernels::RowRange& range) const;
  bool add_strided(const kernels::cuda::Launcher& launch, LaunchKey& key,
                   const kernels::GroupedGemm& args);
  Status add_pointers(const kernels::cuda::Launcher& launch, PlanMemory& plan, LaunchKey& key,
                      const kernels::GroupedGemm& args);
  Groups& make_groups(std::span<const kernels::RowRange> ranges, int m, int k);
  const std::byte* input(const kernels::GroupedGemm& args, const kernels::RowRange& range) const;
  std::byte* output(const kernels::GroupedGemm& args, const kernels::RowRange& range) const;
  cudaDataType type_of_output(const kernels::GroupedGemm& args) const;

  cudaError_t as_launch(cublasStatus_t status);
  static cudaError_t make_strided(const Strided& call, cudaStream_t stream);
  static cudaError_t make_with_epilogue(const WithEpilogue& call, cudaStream_t stream);
  static cudaError_t make_pointers(const Pointers& call, cudaStream_t stream);
  static cudaError_t fork(const Join& call, cudaStream_t stream);
  static cudaError_t join(const Join& call, cudaStream_t stream);

  const DType compute_;
  const cudaDataType type_;
  const Blas& blas_;
  std::array<Lane, kLanes> lanes_;
  cublasLtHandle_t lt_ = nullptr;
  cublasStatus_t refused_ = CUBLAS_STATUS_SUCCESS;  // logged last
  std::deque<Groups> groups_;                       // kept from batch to batch
  size_t num_groups_ = 0;
  std::vector<const void*> weights_, inputs_;
  std::vector<void*> outputs_;
};

}  // namespace itif::device::cuda
