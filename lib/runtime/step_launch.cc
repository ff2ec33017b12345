#include "runtime/step_launch.h"

namespace itif::runtime {
namespace {

// A form's is one call, which names no tenant.
kernels::GemmModes gemm_modes(Group& group, bool has_form,
                              std::span<const kernels::RowRange> ranges) noexcept {
  return has_form ? kernels::GemmMode::kAtOnce : group.gemm_modes(ranges);
}

}  // namespace

void launch_sources(Group& group, device::Stream& stream, const StepLayout& layout) noexcept {
  backbone::Pass sources = layout.sources();
  sources.gemm_mode = gemm_modes(group, sources.has_form, sources.ranges);
  group.decoder()->launch_encode(stream, group.weights(), sources, layout.source_places());
}

backbone::StepResult launch_step(Group& group, device::Stream& stream,
                                 const StepLayout& layout) noexcept {
  // Sources are alike whatever is copied behind them.
  stream.begin_part();
  group.decoder()->launch_copies(stream, layout.copies());
  stream.begin_step();
  backbone::DecoderStep step = layout.step();
  step.gemm_mode = gemm_modes(group, step.has_form, step.ranges);
  return group.decoder()->launch_step(stream, group.weights(), step);
}

}  // namespace itif::runtime
