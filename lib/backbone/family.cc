#include "backbone/family.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace itif::backbone {

// families.inc has ITIF_FAMILY(name) per name in meson.build; lib/backbone/<name>.cc defines it.
#define ITIF_FAMILY(name) \
  namespace name {        \
  const Family& family(); \
  }
#include "backbone/families.inc"
#undef ITIF_FAMILY

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

std::span<const Family* const> families() {
  static const Family* const all[] = {
#define ITIF_FAMILY(name) &name::family(),
#include "backbone/families.inc"
#undef ITIF_FAMILY
  };
  return all;
}

Result<const Family*> find_family(std::string_view model_type) {
  std::string known;
  for (const Family* family : families()) {
    if (family->model_type == model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family->model_type);
  }
  return fail(Code::kUnsupported,
              fmt::format("'model_type' must be one of {}, found {}", known,
                          model_type.empty() ? "nothing" : fmt::format("\"{}\"", model_type)));
}

std::string preset_names() {
  std::string names;
  for (const Family* family : families())
    for (const Preset& preset : family->presets)
      names += (names.empty() ? "" : ", ") + std::string(preset.name);
  return names;
}

Result<const Preset*> find_preset(std::string_view name) {
  for (const Family* family : families())
    for (const Preset& preset : family->presets)
      if (preset.name == name) return &preset;
  return fail(Code::kNotFound, fmt::format("no backbone '{}'; there are {}", name, preset_names()));
}

}  // namespace itif::backbone
