// Makes a group of the kind that its family needs.
#pragma once

#include <memory>

#include "runtime/group.h"

namespace itif::runtime {

// Makes a decoder group if the spec's family generates, else an encoder group. `device` outlives
// it. Errors: those of make_encoder_group() and make_decoder_group().
Result<std::unique_ptr<Group>> make_group(device::Device& device, const model::BackboneSpec& spec,
                                          const GroupOptions& options);

}  // namespace itif::runtime
