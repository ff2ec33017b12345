#include "device/cuda/gemm/gemm_trials.h"

#include <fmt/format.h>

#include <mutex>

#include "device/cuda/driver/captures.h"
#include "device/cuda/driver/error.h"
#include "device/cuda/gemm/epilogue.h"
#include "device/cuda/gemm/refusals.h"

namespace itif::device::cuda {
namespace {

constexpr const char* kCannotTry = "cannot try a GEMM by cuBLAS";
constexpr uint32_t kTrialRows = 8;

}  // namespace

Status GemmTrials::open() {
  if (handle_ != nullptr) return {};
  ITIF_ASSIGN(blas_, load_blas());
  if (stream_ == nullptr)
    ITIF_TRY(check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), kCannotTry));
  return check(blas_->create(&handle_), kCannotTry);
}

void GemmTrials::close() noexcept {
  const std::lock_guard lock(mutex_);
  const std::unique_lock alone(captures());
  if (handle_ != nullptr) (void)blas_->destroy(handle_);
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  handle_ = nullptr;
  stream_ = nullptr;
}

Status GemmTrials::try_out(const ComputeTypes& types, const GemmShape& shape, const void* zeros) {
  const std::lock_guard lock(mutex_);
  if (done_.contains({shape.n, shape.k, shape.f32_out})) return {};
  const std::unique_lock alone(captures());  // creating the handle and loading code synchronise
  ITIF_TRY(open());
  ITIF_TRY(multiply(types, shape, zeros));
  done_.insert({shape.n, shape.k, shape.f32_out});
  return {};
}

Status GemmTrials::multiply(const ComputeTypes& types, const GemmShape& shape, const void* zeros) {
  const size_t a_bytes = size_t{kTrialRows} * shape.k * dtype_bytes(types.activations);
  ITIF_ASSIGN(const auto a, allocate_buffer(budget_, a_bytes));
  ITIF_ASSIGN(const auto out,
              allocate_buffer(budget_, size_t{kTrialRows} * shape.n * sizeof(float)));
  ITIF_TRY(check(blas_->set_stream(handle_, stream_), kCannotTry));
  const auto n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
  const DType type_out = shape.f32_out ? DType::kF32 : types.activations;
  for (const int rows : {1, static_cast<int>(kTrialRows)}) {
    const cublasStatus_t status =
        blas_->gemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, n, rows, k, &kOne, zeros,
                    type_of(types.weights), k, a->data(), type_of(types.activations), k, &kZero,
                    out->data(), type_of(type_out), n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (is_refusal(status))
      return fail(Code::kUnsupported,
                  fmt::format("cuBLAS has no GEMM of {} × {} for {} rows, of {} weights and {} "
                              "activations with {} results: {}",
                              n, k, rows, dtype_name(types.weights), dtype_name(types.activations),
                              dtype_name(type_out), blas_->status_string(status)));
    ITIF_TRY(check(status, kCannotTry));
  }
  return check(cudaStreamSynchronize(stream_), kCannotTry);
}

}  // namespace itif::device::cuda
