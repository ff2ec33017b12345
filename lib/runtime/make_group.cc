#include "runtime/make_group.h"

#include "runtime/batch/encoder_group.h"
#include "runtime/generate/decoder_group.h"

namespace itif::runtime {

Result<std::unique_ptr<Group>> make_group(device::Device& device, const model::BackboneSpec& spec,
                                          const GroupOptions& options) {
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  if (family->make_decoder) return DecoderGroup::create(device, spec, options);
  return EncoderGroup::create(device, spec, options);
}

}  // namespace itif::runtime
