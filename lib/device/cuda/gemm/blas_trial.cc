#include "device/cuda/gemm/blas_trial.h"

#include <array>
#include <mutex>

#include "device/cuda/driver/captures.h"
#include "device/cuda/driver/error.h"
#include "device/cuda/gemm/epilogue.h"
#include "device/cuda/memory/memory.h"

namespace itif::device::cuda {
namespace {

constexpr const char* kWhat = "cuBLAS does not work after the GPU's reset";
constexpr int kSize = 8;
constexpr size_t kValues = size_t{kSize} * kSize;
using Matrix = std::array<float, kValues>;

// Writes twice the first matrix to the second one.
Status multiply(const Blas& blas, cublasHandle_t handle, Matrix* on_device) {
  return check(blas.gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, kSize, kSize, kSize, &kOne,
                         on_device + 1, CUDA_R_32F, kSize, on_device, CUDA_R_32F, kSize, &kZero,
                         on_device + 2, CUDA_R_32F, kSize, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
               kWhat);
}

Status try_blas(const Blas& blas, cublasHandle_t handle, cudaStream_t stream, Matrix* on_device) {
  std::array<Matrix, 2> factors = {};
  for (size_t i = 0; i < kValues; ++i) factors[0][i] = static_cast<float>(i);
  for (size_t i = 0; i < kValues; i += kSize + 1) factors[1][i] = 2;
  ITIF_TRY(
      finish_write(cudaMemcpy(on_device, &factors, sizeof factors, cudaMemcpyHostToDevice), kWhat));
  ITIF_TRY(check(blas.set_stream(handle, stream), kWhat));
  ITIF_TRY(multiply(blas, handle, on_device));
  ITIF_TRY(check(cudaStreamSynchronize(stream), kWhat));
  Matrix product = {};
  ITIF_TRY(
      check(cudaMemcpy(&product, on_device + 2, sizeof product, cudaMemcpyDeviceToHost), kWhat));
  for (size_t i = 0; i < kValues; ++i)
    if (product[i] != 2 * factors[0][i]) return fail(Code::kInternal, kWhat);
  return {};
}

}  // namespace

Status try_blas(cudaStream_t stream) {
  ITIF_ASSIGN(const Blas* blas, load_blas());
  const std::unique_lock alone(captures());
  cublasHandle_t handle = nullptr;
  void* on_device = nullptr;
  Status status = check(blas->create(&handle), kWhat);
  if (status) status = check(cudaMalloc(&on_device, 3 * sizeof(Matrix)), kWhat);
  if (status) status = try_blas(*blas, handle, stream, static_cast<Matrix*>(on_device));
  (void)cudaFree(on_device);
  if (handle != nullptr) (void)blas->destroy(handle);
  return status;
}

}  // namespace itif::device::cuda
