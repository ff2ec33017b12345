// Attention in bf16 products, for bf16 activations on CPUs that support them.
#pragma once

#include "kernels/host/attention_tasks.h"

namespace itif::kernels::host {

// REQUIRES: the returned function runs only on CPUs with AVX512-BF16.
AttentionTaskFunction attention_avx512_bf16_task();
// REQUIRES: the returned function runs only on CPUs with AVX512-BF16 and AMX-BF16, with the
// system's permission to use tiles.
AttentionTaskFunction attention_amx_bf16_task();
size_t attention_bf16_scratch_bytes(uint32_t max_tokens);

}  // namespace itif::kernels::host
