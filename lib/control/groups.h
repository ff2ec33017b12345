// Changes the settings of groups (planner, batch policy, share of the device, weight), and measures
// groups: the costs of their GEMMs, and their throughput by share. A change is applied to the
// appliance, committed to the registry, then answered. If the commit fails, the old settings are
// restored.
//
// Used by the job thread only.
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
  Result<nlohmann::json> run(const MeasureKnee& op, const Progress& progress);

 private:
  Result<GroupSettings> apply(const std::string& group, const GroupSettings& settings,
                              const Progress& progress);
  void restore(const std::string& group, const GroupSettings& before);

  Registry& registry_;
  Appliance& appliance_;
  const Documents& documents_;
  const Notify& notify_;
};

}  // namespace itif::control
