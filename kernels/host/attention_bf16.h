// Attention in bf16 products, for bf16 activations on CPUs that have them.
#pragma once

#include "kernels/host/attention_tasks.h"

namespace itif::kernels::host {

// AVX512-BF16. REQUIRES: the CPU has it, for the function that is returned.
AttentionTaskFunction attention_avx512_bf16_task();
// AMX-BF16. REQUIRES: as above, AVX512-BF16, and the system's permission to use tiles.
AttentionTaskFunction attention_amx_bf16_task();
size_t attention_bf16_scratch_bytes(uint32_t max_tokens);

}  // namespace itif::kernels::host
