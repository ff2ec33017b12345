#include "runtime/generate/decoder_group.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/generate/generation_executor.h"

namespace itif::runtime {
namespace {

// A K/V cache takes at most 1/kCacheShare of the device's memory; the rest is for weights and other
// groups.
constexpr uint64_t kCacheShare = 4;
// Most rows in a step bucket per live beam: each tenant's beams take separate, padded ranges.
constexpr uint32_t kStepPadding = 8;

GenerationBuckets decoder_buckets(const device::DeviceInfo& device, const GroupOptions& options) {
  return {.sources = GraphBuckets(std::min(device.max_bucket_rows, options.max_tokens), 0),
          .steps = GraphBuckets::of_steps(
              std::min(device.max_bucket_rows, kStepPadding * options.max_beams))};
}

}  // namespace

Result<std::unique_ptr<DecoderGroup>> DecoderGroup::create(device::Device& device,
                                                           const model::BackboneSpec& spec,
                                                           const GroupOptions& options) {
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  CHECK(family->make_decoder);
  ITIF_ASSIGN(auto tenants,
              TenantSlots::create(device, *family, spec, options, backbone::FusionMode::kFused));
  std::unique_ptr<DecoderGroup> group(new DecoderGroup(device.info(), std::move(tenants)));
  const uint64_t cache_bytes =
      std::min<uint64_t>(options.max_cache_bytes, device.available_bytes() / kCacheShare);
  ITIF_ASSIGN(group->decoder_, family->make_decoder(device, spec,
                                                    {.max_rows = options.max_tokens,
                                                     .max_beams = options.max_beams,
                                                     .max_step_rows = group->max_step_rows(),
                                                     .max_cache_bytes = cache_bytes}));
  return group;
}

DecoderGroup::DecoderGroup(const device::DeviceInfo& device, std::unique_ptr<TenantSlots> tenants)
    : tenants_(std::move(tenants)),
      gemms_(device.num_threads, options().max_beams,
             std::max(options().max_tokens, options().max_beams)),
      buckets_(decoder_buckets(device, options())),
      bucket_layout_(options().max_beams, options().max_tokens, spec().max_positions, buckets_) {}

uint32_t DecoderGroup::max_step_rows() const noexcept {
  return std::max(options().max_beams, buckets_.steps.max_rows());
}

uint64_t DecoderGroup::workspace_bytes() const noexcept {
  return decoder_->workspace_bytes() + decoder_->cache_bytes();
}

Result<std::unique_ptr<RequestExecutor>> DecoderGroup::make_executor(
    device::Stream& stream, const Clock& clock, const ExecutorOptions& options) {
  return GenerationExecutor::create(*this, stream, clock, options);
}

device::StreamLimits DecoderGroup::stream_limits() const noexcept {
  constexpr size_t kAlignment = 16;  // alignment of each piece
  const size_t tokens = options().max_tokens, requests = options().max_requests;
  // A step copies only a few candidates per beam, so result_bytes stays 0.
  return {.max_tokens = std::max(options().max_tokens, max_step_rows()),
          .max_segments = options().max_tokens,
          .max_blocks = backbone::Decoder::max_blocks(options().max_beams, spec().max_positions),
          // The ids of texts and of a step.
          .unregistered_bytes =
              (tokens + max_step_rows()) * sizeof(int32_t) + (requests + 1) * kAlignment};
}

size_t DecoderGroup::num_buckets() const noexcept {
  return buckets_.sources.all().size() + buckets_.steps.all().size();
}

Status DecoderGroup::warm_up(device::Stream& stream, size_t bucket) noexcept {
  if (const auto steps = buckets_.steps.all(); bucket < steps.size()) {
    bucket_layout_.build_step(steps[bucket]);
    (void)launch_step(stream, bucket_layout_);
  } else {
    bucket_layout_.build_sources(buckets_.sources.all()[bucket - steps.size()]);
    launch_sources(stream, bucket_layout_);
  }
  return stream.warm_up();
}

void DecoderGroup::launch_sources(device::Stream& stream, const StepLayout& layout) noexcept {
  backbone::Pass sources = layout.sources();
  sources.gemm_schedule = gemms_.choose(sources.ranges, sources.has_bucket);
  decoder_->launch_encode(stream, tenants_->weights(), sources, layout.source_kv_rows());
}

backbone::StepResult DecoderGroup::launch_step(device::Stream& stream,
                                               const StepLayout& layout) noexcept {
  // Ends the sources' graph segment: the copies that follow differ between equal sources.
  stream.end_graph_segment();
  decoder_->launch_copies(stream, layout.copies());
  stream.begin_step();
  backbone::DecoderStep step = layout.step();
  step.gemm_schedule = gemms_.choose(step.ranges, step.has_bucket);
  return decoder_->launch_step(stream, tenants_->weights(), step);
}

}  // namespace itif::runtime
