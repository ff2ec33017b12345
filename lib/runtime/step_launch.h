// What a group that generates launches: for the sequences that it runs, and for the forms that a device is made ready
// for.
#pragma once

#include "backbone/decoder.h"
#include "device/device.h"
#include "runtime/group.h"
#include "runtime/step_layout.h"

namespace itif::runtime {

// Encodes what layout.build_sources() laid out. REQUIRES: group.decoder().
void launch_sources(Group& group, device::Stream& stream, const StepLayout& layout) noexcept;
// Behind them: the step that layout.build_step() laid out, and what it copies.
backbone::StepResult launch_step(Group& group, device::Stream& stream,
                                 const StepLayout& layout) noexcept;

}  // namespace itif::runtime
