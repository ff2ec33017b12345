// Batched GEMMs cut into tasks that threads draw in turn: a block of rows of one product. A task packs
// its b for itself, into its thread's scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/thesis_args.h"
#include "tensor/dtype.h"

namespace itif::kernels::host {

struct BatchedGemmTask {
  size_t a = 0, b = 0, out = 0;  // of the product, elements
  uint32_t m_begin = 0, m_end = 0;
  uint32_t n = 0, k = 0;
};
using BatchedGemmFunction = void (*)(const BatchedGemm& args, const BatchedGemmTask& task,
                                     std::byte* scratch);

BatchedGemmFunction batched_gemm_f32_task(DType activation);
// REQUIRES: the CPU has the products, for the functions that are returned.
BatchedGemmFunction batched_gemm_avx512_bf16_task();
BatchedGemmFunction batched_gemm_amx_bf16_task();

}  // namespace itif::kernels::host
