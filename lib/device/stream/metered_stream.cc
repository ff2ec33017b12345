#include "device/stream/metered_stream.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace itif::device {
namespace {

constexpr const char* kNames[] = {
    "gather_ids",      "embed_layer_norm",    "gather_patches", "embed_patches",    "gemm",
    "attention",       "residual_layer_norm", "pool_segments",  "to_f32",           "small_linear",
    "embed_positions", "append_kv",           "copy_kv",        "cached_attention", "top_tokens",
    "bias_activation", "split_heads",         "merge_heads",    "batched_gemm",     "softmax"};

// Returns the number of non-empty ranges, or at most 1 if they run concurrently.
uint64_t launches_of(const kernels::GroupedGemm& args) {
  const auto ranges = static_cast<uint64_t>(std::ranges::count_if(
      args.ranges, [](const kernels::RowRange& range) { return range.num_rows > 0; }));
  return args.mode.of(args.n, args.k) == kernels::GemmMode::kConcurrent
             ? std::min<uint64_t>(ranges, 1)
             : ranges;
}

}  // namespace

// In the order of kNames.
enum MeteredStream::Operator : size_t {
  kGatherIds,
  kEmbedLayerNorm,
  kGatherPatches,
  kEmbedPatches,
  kGemm,
  kAttention,
  kResidualLayerNorm,
  kPoolSegments,
  kToF32,
  kSmallLinear,
  kEmbedPositions,
  kAppendKv,
  kCopyKv,
  kCachedAttention,
  kTopTokens,
  kBiasActivation,
  kSplitHeads,
  kMergeHeads,
  kBatchedGemm,
  kSoftmax
};

MeteredStream::MeteredStream(std::unique_ptr<Stream> stream, const Clock& clock, Times times)
    : stream_(std::move(stream)), clock_(clock), waits_(times == Times::kOnDevice) {
  static_assert(std::size(kNames) == kNumOperators && kSoftmax + 1 == kNumOperators);
  if (waits_) stream_->disable_graphs();
  clear();
}

void MeteredStream::clear() {
  for (size_t i = 0; i < kNumOperators; ++i) figures_[i] = {.name = kNames[i]};
}

OperatorFigures MeteredStream::of(std::string_view name) const {
  const auto found = std::ranges::find(figures_, name, &OperatorFigures::name);
  return found == figures_.end() ? OperatorFigures{} : *found;
}

OperatorFigures MeteredStream::total() const {
  OperatorFigures all{.name = "all"};
  for (const OperatorFigures& one : figures_) {
    all.launches += one.launches;
    all.call_ns += one.call_ns;
    all.device_ns += one.device_ns;
  }
  return all;
}

template <class Launch>
void MeteredStream::meter(Operator which, uint64_t launches, const Launch& launch) {
  OperatorFigures& figures = figures_[which];
  const uint64_t before_ns = clock_.now_ns();
  launch();
  const Event event = waits_ ? stream_->record() : 0;  // submits the launch to a GPU
  figures.call_ns += clock_.now_ns() - before_ns;
  figures.launches += launches;
  if (waits_) figures.device_ns += finish(event);
}

uint64_t MeteredStream::finish(Event event) {
  Completion done = stream_->wait(event);
  since_event_.device_ns += done.device_ns;
  if (since_event_.status) since_event_.status = std::move(done.status);
  return done.device_ns;
}

Status MeteredStream::warm_up() {
  return waits_ ? Stream::warm_up() : stream_->warm_up();
}
Stream::Event MeteredStream::record() {
  if (!waits_) return stream_->record();
  completions_[next_event_ % kMaxPending] = std::exchange(since_event_, {});
  return next_event_++;
}
Stream::Completion MeteredStream::wait(Event event) {
  return waits_ ? std::move(completions_[event % kMaxPending]) : stream_->wait(event);
}
Status MeteredStream::synchronize() {
  return waits_ ? std::exchange(since_event_, {}).status : stream_->synchronize();
}

void MeteredStream::gather_ids(const kernels::GatherIds& args) {
  meter(kGatherIds, 1, [&] { stream_->gather_ids(args); });
}
void MeteredStream::embed_layer_norm(const kernels::EmbedLayerNorm& args) {
  meter(kEmbedLayerNorm, 1, [&] { stream_->embed_layer_norm(args); });
}
void MeteredStream::gather_patches(const kernels::GatherPatches& args) {
  meter(kGatherPatches, 1, [&] { stream_->gather_patches(args); });
}
void MeteredStream::embed_patches(const kernels::EmbedPatches& args) {
  meter(kEmbedPatches, 1, [&] { stream_->embed_patches(args); });
}
void MeteredStream::gemm(const kernels::GroupedGemm& args) {
  meter(kGemm, launches_of(args), [&] { stream_->gemm(args); });
}
void MeteredStream::gemms(std::span<const kernels::GroupedGemm> all) {
  uint64_t launches = 0;
  for (const kernels::GroupedGemm& args : all) launches += launches_of(args);
  meter(kGemm, launches, [&] { stream_->gemms(all); });
}
void MeteredStream::attention(const kernels::Attention& args) {
  meter(kAttention, 1, [&] { stream_->attention(args); });
}
void MeteredStream::residual_layer_norm(const kernels::ResidualLayerNorm& args) {
  meter(kResidualLayerNorm, 1, [&] { stream_->residual_layer_norm(args); });
}
void MeteredStream::pool_segments(const kernels::PoolSegments& args) {
  meter(kPoolSegments, 1, [&] { stream_->pool_segments(args); });
}
void MeteredStream::to_f32(const kernels::ToF32& args) {
  meter(kToF32, 1, [&] { stream_->to_f32(args); });
}
void MeteredStream::small_linears(std::span<const kernels::SmallLinear> all) {
  meter(kSmallLinear, 1, [&] { stream_->small_linears(all); });
}
void MeteredStream::embed_positions(const kernels::EmbedPositions& args) {
  meter(kEmbedPositions, 1, [&] { stream_->embed_positions(args); });
}
void MeteredStream::append_kv(const kernels::AppendKv& args) {
  meter(kAppendKv, 1, [&] { stream_->append_kv(args); });
}
void MeteredStream::copy_kv(const kernels::CopyKv& args) {
  meter(kCopyKv, 1, [&] { stream_->copy_kv(args); });
}
void MeteredStream::cached_attention(const kernels::CachedAttention& args) {
  meter(kCachedAttention, 1, [&] { stream_->cached_attention(args); });
}
void MeteredStream::top_tokens(const kernels::TopTokens& args) {
  meter(kTopTokens, 1, [&] { stream_->top_tokens(args); });
}
void MeteredStream::bias_activation(const kernels::BiasActivation& args) {
  meter(kBiasActivation, 1, [&] { stream_->bias_activation(args); });
}
void MeteredStream::split_heads(const kernels::SplitHeads& args) {
  meter(kSplitHeads, 1, [&] { stream_->split_heads(args); });
}
void MeteredStream::merge_heads(const kernels::MergeHeads& args) {
  meter(kMergeHeads, 1, [&] { stream_->merge_heads(args); });
}
void MeteredStream::batched_gemm(const kernels::BatchedGemm& args) {
  meter(kBatchedGemm, args.batches.size(), [&] { stream_->batched_gemm(args); });
}
void MeteredStream::softmax(const kernels::Softmax& args) {
  meter(kSoftmax, 1, [&] { stream_->softmax(args); });
}
void MeteredStream::copy_to_host(const void* source, size_t bytes, void* target) {
  stream_->copy_to_host(source, bytes, target);
  if (waits_) (void)finish(stream_->record());  // not within the next operator's time
}

}  // namespace itif::device
