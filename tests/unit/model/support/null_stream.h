// A stream that runs nothing, for tests that need no computation.
#pragma once

#include "device/device.h"

namespace itif::testing {

class NullStream : public device::ImmediateStream {
 public:
  void attach_thread() override {}
  void gather_ids(const kernels::GatherIds&) override {}
  void embed_layer_norm(const kernels::EmbedLayerNorm&) override {}
  void gather_patches(const kernels::GatherPatches&) override {}
  void embed_patches(const kernels::EmbedPatches&) override {}
  void gemm(const kernels::GroupedGemm&) override {}
  void gemms(std::span<const kernels::GroupedGemm>) override {}
  void attention(const kernels::Attention&) override {}
  void residual_layer_norm(const kernels::ResidualLayerNorm&) override {}
  void pool_segments(const kernels::PoolSegments&) override {}
  void to_f32(const kernels::ToF32&) override {}
  void small_linears(std::span<const kernels::SmallLinear>) override {}
  void embed_positions(const kernels::EmbedPositions&) override {}
  void append_kv(const kernels::AppendKv&) override {}
  void copy_kv(const kernels::CopyKv&) override {}
  void cached_attention(const kernels::CachedAttention&) override {}
  void top_tokens(const kernels::TopTokens&) override {}
  void bias_activation(const kernels::BiasActivation&) override {}
  void split_heads(const kernels::SplitHeads&) override {}
  void merge_heads(const kernels::MergeHeads&) override {}
  void batched_gemm(const kernels::BatchedGemm&) override {}
  void softmax(const kernels::Softmax&) override {}
  void copy_to_host(const void*, size_t, void*) override {}
  Status synchronize() override { return {}; }
};

}  // namespace itif::testing
