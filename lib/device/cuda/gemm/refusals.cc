#include "device/cuda/gemm/refusals.h"

#include "base/log.h"
#include "device/cuda/gemm/blas.h"

namespace itif::device::cuda {

const char* name_of(BlasCall call) {
  switch (call) {
    case BlasCall::kWithEpilogue: return "GEMM with an epilogue";
    case BlasCall::kStrided: return "strided GEMM";
    case BlasCall::kByPointers: return "GEMM by pointers";
    case BlasCall::kGrouped: return "grouped GEMM";
  }
  return "GEMM";
}

void Refusals::add(const CallKind& kind, cublasStatus_t status) {
  if (!kinds_.insert(kind).second) return;
  log::warning("cuBLAS refused a {} of {} × {} ({}): {} from now on", name_of(kind.call), kind.n,
               kind.k, (*load_blas())->status_string(status),
               kind.call == BlasCall::kWithEpilogue
                   ? "bias and activation take a launch of their own"
                   : "each range is a separate GEMM, which is slower");
}

}  // namespace itif::device::cuda
