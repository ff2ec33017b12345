// An admitted tenant in a group. Any thread may read it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/adapter_weights.h"
#include "model/tenant_model.h"

namespace itif::runtime {

struct AdmittedTenant {
  model::TenantModel model;
  // Null: none, or it is merged. Tenants of a group with equal adapters have it together.
  std::shared_ptr<const model::AdapterWeights> adapter;
  model::ContentId adapter_content = {};  // if it may be shared; else zeros
  std::string base_version;  // Checkpoint::version() of the model in the weight slot; empty: none
};

}  // namespace itif::runtime
