// A stream that counts what is launched on another and times the calls: who profiles puts one in front,
// and serving pays nothing.
//
// A launch is what a device starts as one piece of work (a CUDA kernel; on the host a run of its thread
// pool): an operator is one, but GEMMs of several ranges in turn, and batched GEMMs of several shapes, are
// one each. GEMMs side by side count as they would alone, on whichever device. What a GPU launches behind a GEMM, for
// a bias or an activation that the call lacks, is not counted.
//
// Time is what calls take: on the host, where launches run at once, their work. On a device that runs them later calls
// cost only launching; Times::kOnDevice has each operator run to its end before its call returns.
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
  uint64_t call_ns = 0;    // of the host
  uint64_t device_ns = 0;  // with Times::kOnDevice, where the device measures it
};

class MeteredStream final : public Stream {
 public:
  enum class Times : bool {
    kCalls,
    // Each operator is recorded and waited for alone: calls are those that launch it, with its plan's copy and two
    // events, and nothing overlaps. What waits for the next launch (a GEMM's bias) is launched with its own, and
    // nothing is a CUDA graph. On an idle device an operator's time begins with its launching.
    kOnDevice
  };
  // `clock` outlives the stream. REQUIRES of kOnDevice: `stream` has no event pending.
  MeteredStream(std::unique_ptr<Stream> stream, const Clock& clock, Times times = Times::kCalls);

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
  void end_inputs() override {
    if (!waits_) stream_->end_inputs();
  }
  void begin_part() override { stream_->begin_part(); }
  void begin_step() override { stream_->begin_step(); }
  Status make_ready() override;
  Graphs graphs() const noexcept override { return stream_->graphs(); }
  Event record() override;
  bool is_done(Event event) const noexcept override { return waits_ || stream_->is_done(event); }
  bool inputs_read(Event event) const noexcept override {
    return waits_ || stream_->inputs_read(event);
  }
  Completion wait(Event event) override;
  Status synchronize() override;

 private:
  enum Operator : size_t;
  static constexpr size_t kNumOperators = 20;
  template <class Launch>
  void meter(Operator which, uint64_t launches, const Launch& launch);
  // Waits for what `event` of stream_ is behind; its time on the device.
  uint64_t finish(Event event);

  std::unique_ptr<Stream> stream_;
  const Clock& clock_;
  const bool waits_;
  std::array<OperatorFigures, kNumOperators> figures_;
  // Where operators are waited for: what came of them since the last event, and of those behind the events.
  Completion since_event_;
  std::array<Completion, kMaxPending> completions_;
  Event next_event_ = 0;
};

}  // namespace itif::device
