// Launches of a group that generates: for running sequences, and to capture graph buckets ahead.
#pragma once

#include "backbone/decoder.h"
#include "device/device.h"
#include "runtime/generate/step_layout.h"
#include "runtime/group.h"

namespace itif::runtime {

// Encodes what layout.build_sources() laid out. REQUIRES: group.decoder().
void launch_sources(Group& group, device::Stream& stream, const StepLayout& layout) noexcept;
// Launches the copies and the step that layout.build_step() laid out, after any sources.
backbone::StepResult launch_step(Group& group, device::Stream& stream,
                                 const StepLayout& layout) noexcept;

}  // namespace itif::runtime
