#include "backbone/fusion_mode.h"

#include <fmt/format.h>

#include <algorithm>

#include "backbone/family.h"
#include "base/check.h"

namespace itif::backbone {

Result<FusionMode> parse_fusion_mode(std::string_view name) {
  if (name == "fused") return FusionMode::kFused;
  if (name == "thesis") return FusionMode::kThesis;
  return fail(Code::kInvalidArgument,
              fmt::format("unknown fusion_mode '{}': use fused or thesis", name));
}

device::GemmShape in_fusion_mode(device::GemmShape shape, FusionMode fusion_mode,
                                 uint32_t num_modules) {
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
    kind.gemm = in_fusion_mode(kind.gemm, fusion_mode, kind.num_gemms);
  }
  return kinds;
}

std::vector<GemmUse> gemms(const Family& family, const model::BackboneSpec& spec,
                           FusionMode fusion_mode) {
  std::vector<GemmUse> uses = family.gemms(spec);
  if (fusion_mode == FusionMode::kFused) return uses;
  const std::vector<model::WeightKind> kinds = family.weight_kinds(spec);
  for (GemmUse& use : uses) {
    const auto kind = std::ranges::find_if(kinds, [&](const model::WeightKind& each) {
      return each.storage == model::Storage::kMatrix && each.gemm.n == use.shape.n &&
             each.gemm.k == use.shape.k && each.gemm.activation == use.shape.activation;
    });
    CHECK(kind != kinds.end());
    const auto modules = static_cast<uint32_t>(kind->sources.size());
    use.shape = in_fusion_mode(use.shape, fusion_mode, modules);
    use.times *= modules;
    use.num_weights *= modules;
  }
  return uses;
}

}  // namespace itif::backbone
