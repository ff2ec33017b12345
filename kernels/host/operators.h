// The operators of kernels/args.h on the host, as the host device's stream calls them. One .cc file
// each.
#pragma once

#include <cstddef>

#include "kernels/decode_args.h"
#include "kernels/host/launch.h"
#include "kernels/thesis_args.h"

namespace itif::kernels::host {

void gather_ids(const GatherIds& args) noexcept;
void embed_layer_norm(const EmbedLayerNorm& args, const HostLaunch& launch) noexcept;
void gather_patches(const GatherPatches& args, const HostLaunch& launch) noexcept;
void embed_patches(const EmbedPatches& args, const HostLaunch& launch) noexcept;
void residual_layer_norm(const ResidualLayerNorm& args, const HostLaunch& launch) noexcept;
void bias_activation(const BiasActivation& args, const HostLaunch& launch) noexcept;
void pool_segments(const PoolSegments& args, const HostLaunch& launch) noexcept;
void to_f32(const ToF32& args, const HostLaunch& launch) noexcept;
void small_linear(const SmallLinear& args, const HostLaunch& launch) noexcept;

void embed_positions(const EmbedPositions& args, const HostLaunch& launch) noexcept;
void append_kv(const AppendKv& args, const HostLaunch& launch) noexcept;
void copy_kv(const CopyKv& args, const HostLaunch& launch) noexcept;
void cached_attention(const CachedAttention& args, const HostLaunch& launch) noexcept;
void top_tokens(const TopTokens& args, const HostLaunch& launch) noexcept;

void split_heads(const SplitHeads& args, const HostLaunch& launch) noexcept;
void merge_heads(const MergeHeads& args, const HostLaunch& launch) noexcept;
void softmax(const Softmax& args, const HostLaunch& launch) noexcept;

// Working memory of the threads, allocated once for the longest segment. It holds the packed K and
// V of one head and the scores of one tile of queries, or the packed b of one product. A batch
// touches only what it needs.
struct AttentionScratch {
  std::byte* base = nullptr;  // 64-byte aligned, num_threads · bytes_per_thread
  size_t bytes_per_thread = 0;
};
size_t attention_scratch_bytes(uint32_t max_tokens);  // per thread

void attention(const Attention& args, const HostLaunch& launch,
               const AttentionScratch& scratch) noexcept;
void batched_gemm(const BatchedGemm& args, const HostLaunch& launch,
                  const AttentionScratch& scratch) noexcept;

}  // namespace itif::kernels::host
