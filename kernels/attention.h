// Self-attention of packed segments: see Attention in args.h.
#pragma once

#include <cstddef>

#include "kernels/host/launch.h"

namespace itif::kernels::host {

// Working memory of the threads, made once for the longest segment: the packed K and V of one head and
// the scores of one tile of queries. Only what a batch needs of it is ever touched.
struct AttentionScratch {
  std::byte* base = nullptr;  // 64-byte aligned, num_threads · bytes_per_thread
  size_t bytes_per_thread = 0;
};
size_t attention_scratch_bytes(uint32_t max_tokens);  // a thread

void attention(const Attention& args, const HostLaunch& launch,
               const AttentionScratch& scratch) noexcept;

}  // namespace itif::kernels::host
