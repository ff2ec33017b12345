// Calls that cuBLAS has refused. A library or GPU may support fewer types, sizes or alignments than
// the documentation says. A refused call computes nothing and harms nothing, so that simpler calls
// can take its place: a GEMM for each range, or a GEMM without an epilogue and our own kernel
// behind it. From the next batch on, they are launched from the start.
#pragma once

#include <cublas_v2.h>

#include <compare>
#include <cstdint>
#include <set>

#include "kernels/args.h"

namespace itif::device::cuda {

// Returns true if other calls may still compute the same. All other errors are faults.
inline bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH ||
         status == CUBLAS_STATUS_INVALID_VALUE;
}

// A call for which simpler ones can be made.
enum class BlasCall : uint8_t { kWithEpilogue, kStrided, kByPointers, kGrouped };
const char* name_of(BlasCall call);

// A kind of call by the weight's shape [n, k]. Products of activations have no weight: the size
// that is a sequence's length counts as 0, so that one refusal covers all lengths.
struct CallKind {
  BlasCall call = BlasCall::kStrided;
  bool f32_out = false;
  bool has_bias = false;  // epilogues only, as the activation
  kernels::Activation activation = kernels::Activation::kNone;
  uint32_t n = 0, k = 0;
  auto operator<=>(const CallKind&) const = default;
};

// Owned by a stream's thread.
class Refusals {
 public:
  bool has(const CallKind& kind) const { return !kinds_.empty() && kinds_.contains(kind); }
  // Remembers and logs a refusal. Allocates at the first of its kind.
  void add(const CallKind& kind, cublasStatus_t status);
  // Number of kinds refused so far.
  uint64_t count() const { return kinds_.size(); }

 private:
  std::set<CallKind> kinds_;
};

}  // namespace itif::device::cuda
