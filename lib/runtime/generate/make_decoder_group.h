// Makes decoder groups of a family's backbone.
#pragma once

#include <memory>

#include "runtime/generate/decoder_group.h"

namespace itif::runtime {

// Reserves the slabs, the workspace and the K/V cache and prepares the device's GEMMs, so that
// serving creates nothing. `device` outlives the group. REQUIRES: the family generates. Errors:
// kUnsupported (unknown family), kInvalidArgument (options that cannot hold one request),
// kResourceExhausted.
Result<std::unique_ptr<DecoderGroup>> make_decoder_group(device::Device& device,
                                                         const model::BackboneSpec& spec,
                                                         const GroupOptions& options,
                                                         const DecoderGroupOptions& decoder = {});

}  // namespace itif::runtime
