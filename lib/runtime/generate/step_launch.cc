#include "runtime/generate/step_launch.h"

namespace itif::runtime {
namespace {

// A bucket's GEMM is one concurrent call: the captured graph must not depend on tenants.
kernels::GemmModes gemm_modes(Group& group, bool has_bucket,
                              std::span<const kernels::RowRange> ranges) noexcept {
  return has_bucket ? kernels::GemmMode::kConcurrent : group.gemm_modes(ranges);
}

}  // namespace

void launch_sources(Group& group, device::Stream& stream, const StepLayout& layout) noexcept {
  backbone::Pass sources = layout.sources();
  sources.gemm_mode = gemm_modes(group, sources.has_bucket, sources.ranges);
  group.decoder()->launch_encode(stream, group.weights(), sources, layout.source_kv_rows());
}

backbone::StepResult launch_step(Group& group, device::Stream& stream,
                                 const StepLayout& layout) noexcept {
  // Ends the sources' graph segment: the copies that follow differ between equal sources.
  stream.end_graph_segment();
  group.decoder()->launch_copies(stream, layout.copies());
  stream.begin_step();
  backbone::DecoderStep step = layout.step();
  step.gemm_mode = gemm_modes(group, step.has_bucket, step.ranges);
  return group.decoder()->launch_step(stream, group.weights(), step);
}

}  // namespace itif::runtime
