#include "control/groups.h"

#include "base/log.h"

namespace itif::control {

using nlohmann::json;

Result<json> Groups::run(const UpdateGroup& op, const Progress& progress) {
  ITIF_ASSIGN(const std::string before, appliance_.set_planner(op.group, op.planner, progress));
  if (Status put = registry_.put_planner(op.group, op.planner); !put) {
    if (auto back = appliance_.set_planner(op.group, before, {}); !back)
      log::error("control: group {} runs planner {}, which is not saved in the registry: {}",
                 op.group, op.planner, back.error().message);
    return std::unexpected(put.error());
  }
  notify_("group.updated", {{"group", op.group}, {"planner", op.planner}});
  return json{{"group", op.group}, {"planner", op.planner}};
}

Result<json> Groups::run(const RunProfile& op, const Progress& progress) {
  ITIF_TRY(appliance_.run_profile(op.group, progress));
  notify_("group.profiled", {{"group", op.group}});
  return documents_.profile(op.group);
}

}  // namespace itif::control
