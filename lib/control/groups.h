// What control changes of groups: how their batches are laid out, and what that is chosen by. Every change
// runs in the order: the appliance accepts it, the registry commits it, the caller is told. A failed
// commit puts the appliance back.
//
// The worker thread's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "control/appliance.h"
#include "control/operation.h"
#include "control/registry.h"
#include "control/tenants.h"

namespace itif::control {

class Groups {
 public:
  // All outlive this.
  Groups(Registry& registry, Appliance& appliance, const Notify& notify)
      : registry_(registry), appliance_(appliance), notify_(notify) {}

  Result<nlohmann::json> run(const UpdateGroup& op, const Progress& progress);
  Result<nlohmann::json> run(const RunProfile& op, const Progress& progress);

 private:
  Registry& registry_;
  Appliance& appliance_;
  const Notify& notify_;
};

}  // namespace itif::control
