// The weights of a group, as the prices of its passes depend on them: GEMMs whose weights are equal
// run joined (pass_gemms.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/weight_kind.h"
#include "model/weight_store.h"

namespace itif::runtime {

struct PassWeights {
  // The weights of all slots. Called by the group's thread.
  std::function<model::WeightView()> view;
  std::vector<model::WeightKind> kinds;  // as in the view
};

}  // namespace itif::runtime
