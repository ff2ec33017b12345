#include "runtime/generate/make_decoder_group.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/cost/pass_gemms.h"
#include "runtime/generate/generation_executor.h"
#include "runtime/slot_group.h"

namespace itif::runtime {
namespace {

// A K/V cache takes at most 1/kCacheShare of the device's memory; the rest is for weights and other
// groups.
constexpr uint64_t kCacheShare = 4;
// Most rows in a step bucket per live beam: each tenant's beams take separate, padded ranges.
constexpr uint32_t kStepPadding = 8;

GenerationBuckets decoder_buckets(const device::DeviceInfo& device, const GroupOptions& options,
                                  uint32_t max_beams) {
  return {
      .sources = GraphBuckets(
          std::min({device.max_bucket_rows, options.max_tokens, GraphBuckets::kSmallRows}), 0),
      .steps = GraphBuckets::of_steps(std::min(device.max_bucket_rows, kStepPadding * max_beams))};
}

class BackboneDecoder final : public SlotGroup<DecoderGroup> {
 public:
  BackboneDecoder(const device::DeviceInfo& device, std::unique_ptr<TenantSlots> tenants,
                  const DecoderGroupOptions& decoder);
  Status allocate(device::Device& device, const backbone::Family& family);

  // The cache included.
  uint64_t workspace_bytes() const noexcept override;
  uint64_t cache_bytes() const noexcept override { return decoder_->cache_bytes(); }
  void set_costs(std::shared_ptr<const plan::CostTables> costs) override {
    gemms_.set_costs(std::move(costs));
  }
  Result<std::unique_ptr<RequestExecutor>> make_executor(device::Stream& stream, const Clock& clock,
                                                         const ExecutorOptions& options) override;
  device::StreamLimits stream_limits() const noexcept override;
  size_t num_buckets() const noexcept override;
  Status warm_up(device::Stream& stream, size_t bucket) noexcept override;
  ProfiledWork profiled_work() override { return {.max_step_rows = max_beams()}; }
  uint32_t max_beams() const noexcept override { return decoder_options_.max_beams; }
  uint32_t num_kv_blocks() const noexcept override { return decoder_->num_blocks(); }

  const GenerationBuckets& buckets() const noexcept override { return buckets_; }
  void launch_sources(device::Stream& stream, const StepLayout& layout) noexcept override;
  backbone::StepResult launch_step(device::Stream& stream,
                                   const StepLayout& layout) noexcept override;

 private:
  uint32_t max_step_rows() const noexcept;

  const DecoderGroupOptions decoder_options_;
  // Used by the executor's thread.
  std::unique_ptr<backbone::Decoder> decoder_;
  PassGemms gemms_;
  const GenerationBuckets buckets_;
  StepLayout bucket_layout_;  // for warm_up()
};

BackboneDecoder::BackboneDecoder(const device::DeviceInfo& device,
                                 std::unique_ptr<TenantSlots> tenants,
                                 const DecoderGroupOptions& decoder)
    : SlotGroup(std::move(tenants)),
      decoder_options_(decoder),
      gemms_(device.num_threads, this->tenants().weights().slabs.size(),
             {.max_ranges = max_beams(),
              .max_rows = std::max(options().max_tokens, max_beams()),
              .joins = options().shares_weights}),
      buckets_(decoder_buckets(device, options(), decoder.max_beams)),
      bucket_layout_(max_beams(), options().max_tokens, spec().max_positions, buckets_) {}

Status BackboneDecoder::allocate(device::Device& device, const backbone::Family& family) {
  const uint64_t cache_bytes =
      std::min<uint64_t>(decoder_options_.max_cache_bytes, device.available_bytes() / kCacheShare);
  ITIF_ASSIGN(decoder_, family.make_decoder(device, spec(),
                                            {.max_rows = options().max_tokens,
                                             .max_beams = max_beams(),
                                             .max_step_rows = max_step_rows(),
                                             .max_cache_bytes = cache_bytes}));
  return {};
}

uint32_t BackboneDecoder::max_step_rows() const noexcept {
  return std::max(max_beams(), buckets_.steps.max_rows());
}

uint64_t BackboneDecoder::workspace_bytes() const noexcept {
  return decoder_->workspace_bytes() + decoder_->cache_bytes();
}

Result<std::unique_ptr<RequestExecutor>> BackboneDecoder::make_executor(
    device::Stream& stream, const Clock& clock, const ExecutorOptions& options) {
  return GenerationExecutor::create(*this, stream, clock, options);
}

device::StreamLimits BackboneDecoder::stream_limits() const noexcept {
  constexpr size_t kAlignment = 16;  // alignment of each piece
  const size_t tokens = options().max_tokens, requests = options().max_requests;
  // A step copies only a few candidates per beam, so result_bytes stays 0.
  return {.max_tokens = std::max(options().max_tokens, max_step_rows()),
          .max_segments = options().max_tokens,
          .max_blocks = backbone::Decoder::max_blocks(max_beams(), spec().max_positions),
          // The ids of texts and of a step.
          .unregistered_bytes =
              (tokens + max_step_rows()) * sizeof(int32_t) + (requests + 1) * kAlignment};
}

size_t BackboneDecoder::num_buckets() const noexcept {
  return buckets_.sources.all().size() + buckets_.steps.all().size();
}

Status BackboneDecoder::warm_up(device::Stream& stream, size_t bucket) noexcept {
  if (const auto steps = buckets_.steps.all(); bucket < steps.size()) {
    bucket_layout_.build_step(steps[bucket]);
    (void)launch_step(stream, bucket_layout_);
  } else {
    bucket_layout_.build_sources(buckets_.sources.all()[bucket - steps.size()]);
    launch_sources(stream, bucket_layout_);
  }
  return stream.warm_up();
}

void BackboneDecoder::launch_sources(device::Stream& stream, const StepLayout& layout) noexcept {
  backbone::Pass sources = layout.sources();
  const model::WeightView weights = tenants().weights();
  gemms_.schedule(weights, sources);
  decoder_->launch_encode(stream, weights, sources, layout.source_kv_rows());
}

backbone::StepResult BackboneDecoder::launch_step(device::Stream& stream,
                                                  const StepLayout& layout) noexcept {
  // Ends the sources' graph segment: the copies that follow differ between equal sources.
  stream.end_graph_segment();
  decoder_->launch_copies(stream, layout.copies());
  stream.begin_step();
  backbone::DecoderStep step = layout.step();
  const model::WeightView weights = tenants().weights();
  gemms_.schedule(weights, step);
  return decoder_->launch_step(stream, weights, step);
}

}  // namespace

Result<std::unique_ptr<DecoderGroup>> make_decoder_group(device::Device& device,
                                                         const model::BackboneSpec& spec,
                                                         const GroupOptions& options,
                                                         const DecoderGroupOptions& decoder) {
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  CHECK(family->make_decoder);
  ITIF_ASSIGN(auto tenants,
              TenantSlots::create(device, *family, spec, options, backbone::FusionMode::kFused));
  auto group = std::make_unique<BackboneDecoder>(device.info(), std::move(tenants), decoder);
  ITIF_TRY(group->allocate(device, *family));
  return group;
}

}  // namespace itif::runtime
