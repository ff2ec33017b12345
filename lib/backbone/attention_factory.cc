#include "backbone/attention_factory.h"

#include "backbone/fused_attention.h"
#include "backbone/thesis_attention.h"

namespace itif::backbone {

Result<std::unique_ptr<BlockAttention>> make_attention(device::Device& device,
                                                       const model::BackboneSpec& spec,
                                                       const MakeOptions& options) {
  if (options.fusion_mode == FusionMode::kThesis)
    return ThesisAttention::make(device, spec, options);
  return FusedAttention::make(device, spec, options);
}

}  // namespace itif::backbone
