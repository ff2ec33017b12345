// Makes encoder groups of a family's backbone.
#pragma once

#include <memory>

#include "runtime/batch/encoder_group.h"

namespace itif::runtime {

// Reserves the slabs and the workspace and prepares the device's GEMMs, so that serving creates
// nothing. `device` outlives the group. REQUIRES: the family does not generate. Errors:
// kUnsupported (unknown family), kInvalidArgument (options that cannot hold one request),
// kResourceExhausted.
Result<std::unique_ptr<EncoderGroup>> make_encoder_group(device::Device& device,
                                                         const model::BackboneSpec& spec,
                                                         const GroupOptions& options,
                                                         const EncoderGroupOptions& encoder = {});

}  // namespace itif::runtime
