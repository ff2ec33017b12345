#include "runtime/make_group.h"

#include "runtime/batch/make_encoder_group.h"
#include "runtime/generate/make_decoder_group.h"

namespace itif::runtime {

Result<std::unique_ptr<Group>> make_group(device::Device& device, const model::BackboneSpec& spec,
                                          const GroupOptions& options, const KindOptions& kinds) {
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  if (family->make_decoder) return make_decoder_group(device, spec, options, kinds.decoder);
  return make_encoder_group(device, spec, options, kinds.encoder);
}

}  // namespace itif::runtime
