// Changes the settings of groups: their planner and their profile (measured GEMM costs). A planner
// change is applied to the appliance, committed to the registry, then answered. If the commit
// fails, the old planner is restored.
//
// Used by the worker thread only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "control/appliance.h"
#include "control/documents.h"
#include "control/operation.h"
#include "control/registry.h"
#include "control/tenants.h"

namespace itif::control {

class Groups {
 public:
  // All must outlive this object.
  Groups(Registry& registry, Appliance& appliance, const Documents& documents, const Notify& notify)
      : registry_(registry), appliance_(appliance), documents_(documents), notify_(notify) {}

  Result<nlohmann::json> run(const UpdateGroup& op, const Progress& progress);
  Result<nlohmann::json> run(const RunProfile& op, const Progress& progress);

 private:
  Registry& registry_;
  Appliance& appliance_;
  const Documents& documents_;
  const Notify& notify_;
};

}  // namespace itif::control
