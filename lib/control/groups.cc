#include "control/groups.h"

#include "base/log.h"

namespace itif::control {

using nlohmann::json;

// Applies the settings that are not empty. Returns the previous ones of these.
Result<GroupSettings> Groups::apply(const std::string& group, const GroupSettings& settings,
                                    const Progress& progress) {
  GroupSettings before;
  if (!settings.planner.empty()) {
    ITIF_ASSIGN(before.planner, appliance_.set_planner(group, settings.planner, progress));
  }
  if (!settings.scheduler.empty()) {
    auto scheduler = appliance_.set_scheduler(group, settings.scheduler);
    if (!scheduler) {
      restore(group, before);
      return std::unexpected(scheduler.error());
    }
    before.scheduler = std::move(*scheduler);
  }
  if (settings.share_percent) {
    const auto share = appliance_.set_share(group, *settings.share_percent);
    if (!share) {
      restore(group, before);
      return std::unexpected(share.error());
    }
    before.share_percent = *share;
  }
  if (settings.cpus) {
    auto cpus = appliance_.set_cpus(group, *settings.cpus);
    if (!cpus) {
      restore(group, before);
      return std::unexpected(cpus.error());
    }
    before.cpus = std::move(*cpus);
  }
  if (settings.weight) {
    const auto weight = appliance_.set_weight(group, *settings.weight);
    if (!weight) {
      restore(group, before);
      return std::unexpected(weight.error());
    }
    before.weight = *weight;
  }
  return before;
}

void Groups::restore(const std::string& group, const GroupSettings& before) {
  if (auto back = apply(group, before, {}); !back)
    log::error("control: group {} has settings that are not saved in the registry: {}", group,
               back.error().message);
}

Result<json> Groups::run(const UpdateGroup& op, const Progress& progress) {
  const GroupSettings settings{.planner = op.planner.value_or(""),
                               .scheduler = op.scheduler.value_or(""),
                               .share_percent = op.share_percent,
                               .cpus = op.cpus,
                               .weight = op.weight};
  ITIF_ASSIGN(const GroupSettings before, apply(op.group, settings, progress));
  if (Status put = registry_.put_group(op.group, settings); !put) {
    restore(op.group, before);
    return std::unexpected(put.error());
  }
  json changed = {{"group", op.group}};
  if (op.planner) changed["planner"] = *op.planner;
  if (op.scheduler) changed["scheduler"] = *op.scheduler;
  if (op.share_percent) changed["share_percent"] = *op.share_percent;
  if (op.cpus) changed["cpus"] = *op.cpus;
  if (op.weight) changed["weight"] = *op.weight;
  notify_("group.updated", changed);
  return changed;
}

Result<json> Groups::run(const RunProfile& op, const Progress& progress) {
  ITIF_TRY(appliance_.run_profile(op.group, progress));
  notify_("group.profiled", {{"group", op.group}});
  return documents_.profile(op.group);
}

Result<json> Groups::run(const MeasureKnee& op, const Progress& progress) {
  ITIF_TRY(appliance_.measure_knee(op.group, progress));
  notify_("group.knee_measured", {{"group", op.group}});
  return documents_.knee(op.group, std::nullopt);
}

}  // namespace itif::control
