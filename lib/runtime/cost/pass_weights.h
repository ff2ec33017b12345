// The weights of a group, as the prices of its passes depend on them: GEMMs whose weights are equal
// run joined (pass_gemms.h), and adapters add updates.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/weight_kind.h"
#include "model/weight_store.h"

namespace itif::runtime {

struct PassWeights {
  // The weights of all slots; without numbers no GEMM is joined. Both functions are called by the
  // group's thread.
  std::function<model::WeightView()> view;
  std::vector<model::WeightKind> kinds;  // as in the view
  // AdapterWeights::update_shares() of plan::Item::adapter. Null: no tenant is an adapter.
  std::function<std::span<const float>(uint32_t adapter)> update_shares = {};
};

}  // namespace itif::runtime
