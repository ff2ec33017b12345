// Makes a group of the kind that its family needs.
#pragma once

#include <memory>

#include "runtime/batch/encoder_group.h"
#include "runtime/generate/decoder_group.h"
#include "runtime/group.h"

namespace itif::runtime {

// The options of each kind of group.
struct KindOptions {
  EncoderGroupOptions encoder = {};
  DecoderGroupOptions decoder = {};
};

// Makes a decoder group if the spec's family generates, else an encoder group. `device` outlives
// it. Errors: those of make_encoder_group() and make_decoder_group().
Result<std::unique_ptr<Group>> make_group(device::Device& device, const model::BackboneSpec& spec,
                                          const GroupOptions& options,
                                          const KindOptions& kinds = {});

}  // namespace itif::runtime
