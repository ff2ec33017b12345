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
  std::unique_ptr<const model::AdapterWeights> adapter;  // null: none, or it is merged
  std::string base_version;  // Checkpoint::version() of the model in the weight slot; empty: none

  // Device memory that no other tenant shares.
  uint64_t own_bytes() const { return model.adapter_bytes; }
};

}  // namespace itif::runtime
