// How far the operators of a block are fused: as far as pays, or as the thesis has them, so that the two
// can be compared.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/spec.h"
#include "model/weight_store.h"

namespace itif::backbone {

struct Family;

enum class Fidelity : uint8_t {
  // Query, key and value are one GEMM, biases belong to GEMMs, attention is one operator that keeps its
  // scores in caches and skips padding.
  kFused,
  // ITIF's operators (sections 4.2.1 to 4.2.3, over FasterTransformer's): three GEMMs for query, key and
  // value; add-bias and split heads; BatchedGEMM, softmax, BatchedGEMM over scores in memory, padding
  // included; merge heads; add-bias with the activation or with residual and LayerNorm. Encoders only.
  kThesis,
};

// "fused", "thesis". Errors: kInvalidArgument, with the names there are.
Result<Fidelity> parse_fidelity(std::string_view name);

// A family's weight kinds as the operators of a form take them: for the thesis's, modules that the fused
// form stacks into one GEMM are GEMMs apart.
std::vector<model::WeightKind> weight_kinds(const Family& family, const model::BackboneSpec& spec,
                                            Fidelity fidelity);
// One GEMM of several modules likewise. has_bias is false where add-bias is an operator of its own.
device::GemmShape in_form(device::GemmShape shape, Fidelity fidelity, uint32_t num_modules = 1);

}  // namespace itif::backbone
