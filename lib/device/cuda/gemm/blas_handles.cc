#include "device/cuda/gemm/blas_handles.h"

#include <mutex>

#include "device/cuda/driver/captures.h"
#include "device/cuda/driver/error.h"

namespace itif::device::cuda {
namespace {

constexpr const char* kStartBlas = "cannot start cuBLAS";

}  // namespace

Result<std::unique_ptr<BlasHandles>> BlasHandles::make() {
  ITIF_ASSIGN(const Blas* blas, load_blas());
  std::unique_ptr<BlasHandles> made(new BlasHandles(*blas));
  ITIF_TRY(made->open());
  return made;
}

Status BlasHandles::open() {
  const std::unique_lock alone(captures());
  for (size_t i = 0; i < all.size(); ++i) {
    ITIF_ASSIGN(reached[i], StreamEvent::make(cudaEventDisableTiming));
    ITIF_TRY(check(blas_.create(&all[i]), kStartBlas));
    // Reduce partial sums in f32, not in the result's type.
    ITIF_TRY(check(blas_.set_math_mode(all[i], CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                   kStartBlas));
  }
  return check(blas_.lt_create(&lt), kStartBlas);
}

BlasHandles::~BlasHandles() {
  const std::unique_lock alone(captures());
  if (lt != nullptr) (void)blas_.lt_destroy(lt);
  for (cublasHandle_t handle : all)
    if (handle != nullptr) (void)blas_.destroy(handle);
}

}  // namespace itif::device::cuda
