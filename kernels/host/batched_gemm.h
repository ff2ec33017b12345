// Batched GEMMs cut into tasks: a block of rows of one product. Threads draw tasks from a shared
// counter. Each task packs its b into its thread's scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/thesis_args.h"
#include "tensor/dtype.h"

namespace itif::kernels::host {

struct BatchedGemmTask {
  size_t a = 0, b = 0, out = 0;  // offsets of the product, in elements
  uint32_t m_begin = 0, m_end = 0;
  uint32_t n = 0, k = 0;
};
using BatchedGemmFunction = void (*)(const BatchedGemm& args, const BatchedGemmTask& task,
                                     std::byte* scratch);

BatchedGemmFunction batched_gemm_f32_task(DType activation);
// REQUIRES: the returned functions run only on CPUs that support the products.
BatchedGemmFunction batched_gemm_avx512_bf16_task();
BatchedGemmFunction batched_gemm_amx_bf16_task();

}  // namespace itif::kernels::host
