// Attention computed in f32, for f32 activations, and for bf16 ones on CPUs without bf16 products.
#pragma once

#include "kernels/host/attention_tasks.h"
#include "tensor/dtype.h"

namespace itif::kernels::host {
AttentionTaskFunction attention_f32_task(DType activation);
size_t attention_f32_scratch_bytes(uint32_t max_tokens);
}  // namespace itif::kernels::host
