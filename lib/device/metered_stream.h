// A stream that counts what is launched on another and times the calls: who profiles puts one in front,
// and serving pays nothing.
//
// A launch is what a device starts as one piece of work (a CUDA kernel; on the host a run of its thread
// pool): an operator is one, but GEMMs of several ranges in turn, and batched GEMMs of several shapes, are
// one each. GEMMs side by side count as they would alone, on whichever device. Time is what calls take: on the host, where launches run at once, their work; on a device that
// runs them later, what launching costs.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "base/clock.h"
#include "device/device.h"

namespace itif::device {

struct OperatorFigures {
  const char* name = "";
  uint64_t launches = 0;
  uint64_t call_ns = 0;
};

class MeteredStream final : public Stream {
 public:
  // `clock` outlives the stream.
  MeteredStream(std::unique_ptr<Stream> stream, const Clock& clock);

  // Since the last clear(): by operator, named as in Stream, and of all together. Copies to the host and
  // synchronize() are none.
  std::span<const OperatorFigures> operators() const { return figures_; }
  OperatorFigures of(std::string_view name) const;
  OperatorFigures total() const;
  void clear();

  void attach_thread() override { stream_->attach_thread(); }
  void gather_ids(const kernels::GatherIds& args) override;
  void embed_layer_norm(const kernels::EmbedLayerNorm& args) override;
  void gather_patches(const kernels::GatherPatches& args) override;
  void embed_patches(const kernels::EmbedPatches& args) override;
  void gemm(const kernels::GroupedGemm& args) override;
  void gemms(std::span<const kernels::GroupedGemm> all) override;
  void attention(const kernels::Attention& args) override;
  void residual_layer_norm(const kernels::ResidualLayerNorm& args) override;
  void pool_segments(const kernels::PoolSegments& args) override;
  void to_f32(const kernels::ToF32& args) override;
  void small_linears(std::span<const kernels::SmallLinear> all) override;
  void embed_positions(const kernels::EmbedPositions& args) override;
  void append_kv(const kernels::AppendKv& args) override;
  void copy_kv(const kernels::CopyKv& args) override;
  void cached_attention(const kernels::CachedAttention& args) override;
  void top_tokens(const kernels::TopTokens& args) override;
  void bias_activation(const kernels::BiasActivation& args) override;
  void split_heads(const kernels::SplitHeads& args) override;
  void merge_heads(const kernels::MergeHeads& args) override;
  void batched_gemm(const kernels::BatchedGemm& args) override;
  void softmax(const kernels::Softmax& args) override;
  void copy_to_host(const void* source, size_t bytes, void* target) override;
  void end_inputs() override { stream_->end_inputs(); }
  void begin_part() override { stream_->begin_part(); }
  Status make_ready() override { return stream_->make_ready(); }
  Graphs graphs() const noexcept override { return stream_->graphs(); }
  Event record() override { return stream_->record(); }
  bool is_done(Event event) const noexcept override { return stream_->is_done(event); }
  bool inputs_read(Event event) const noexcept override { return stream_->inputs_read(event); }
  Completion wait(Event event) override { return stream_->wait(event); }
  Status synchronize() override { return stream_->synchronize(); }

 private:
  enum Operator : size_t;
  static constexpr size_t kNumOperators = 20;
  template <class Launch>
  void meter(Operator which, uint64_t launches, const Launch& launch);

  std::unique_ptr<Stream> stream_;
  const Clock& clock_;
  std::array<OperatorFigures, kNumOperators> figures_;
};

}  // namespace itif::device
