#include "backbone/fidelity.h"

#include <fmt/format.h>

#include "backbone/family.h"

namespace itif::backbone {

Result<Fidelity> parse_fidelity(std::string_view name) {
  if (name == "fused") return Fidelity::kFused;
  if (name == "thesis") return Fidelity::kThesis;
  return fail(Code::kInvalidArgument,
              fmt::format("no fidelity '{}': it is one of fused, thesis", name));
}

device::GemmShape in_form(device::GemmShape shape, Fidelity fidelity, uint32_t num_modules) {
  if (fidelity == Fidelity::kFused) return shape;
  shape.n /= num_modules;
  shape.has_bias = false;
  return shape;
}

std::vector<model::WeightKind> weight_kinds(const Family& family, const model::BackboneSpec& spec,
                                            Fidelity fidelity) {
  std::vector<model::WeightKind> kinds = family.weight_kinds(spec);
  if (fidelity == Fidelity::kFused) return kinds;
  for (model::WeightKind& kind : kinds) {
    if (kind.storage != model::Storage::kMatrix) continue;
    kind.num_gemms = static_cast<uint32_t>(kind.sources.size());
    kind.gemm = in_form(kind.gemm, fidelity, kind.num_gemms);
  }
  return kinds;
}

}  // namespace itif::backbone
