#include "backbone/fusion_mode.h"

#include <fmt/format.h>

#include "backbone/family.h"

namespace itif::backbone {

Result<FusionMode> parse_fusion_mode(std::string_view name) {
  if (name == "fused") return FusionMode::kFused;
  if (name == "thesis") return FusionMode::kThesis;
  return fail(Code::kInvalidArgument,
              fmt::format("unknown fusion_mode '{}': use fused or thesis", name));
}

device::GemmShape in_bucket(device::GemmShape shape, FusionMode fusion_mode, uint32_t num_modules) {
  if (fusion_mode == FusionMode::kFused) return shape;
  shape.n /= num_modules;
  shape.has_bias = false;
  return shape;
}

std::vector<model::WeightKind> weight_kinds(const Family& family, const model::BackboneSpec& spec,
                                            FusionMode fusion_mode) {
  std::vector<model::WeightKind> kinds = family.weight_kinds(spec);
  if (fusion_mode == FusionMode::kFused) return kinds;
  for (model::WeightKind& kind : kinds) {
    if (kind.storage != model::Storage::kMatrix) continue;
    kind.num_gemms = static_cast<uint32_t>(kind.sources.size());
    kind.gemm = in_bucket(kind.gemm, fusion_mode, kind.num_gemms);
  }
  return kinds;
}

}  // namespace itif::backbone
