#include "backbone/fusion_mode.h"

#include <fmt/format.h>

namespace itif::backbone {

Result<FusionMode> parse_fusion_mode(std::string_view name) {
  if (name == "fused") return FusionMode::kFused;
  if (name == "thesis") return FusionMode::kThesis;
  return fail(Code::kInvalidArgument,
              fmt::format("unknown fusion mode '{}': use fused or thesis", name));
}

device::GemmShape in_fusion_mode(device::GemmShape shape, FusionMode fusion_mode,
                                 uint32_t num_modules) {
  if (fusion_mode == FusionMode::kFused) return shape;
  shape.n /= num_modules;
  shape.has_bias = false;
  return shape;
}

}  // namespace itif::backbone
