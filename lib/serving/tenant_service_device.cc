// Moves the tenant service's groups between devices: to a fallback on a failure, and back after a
// reset.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "serving/tenant_service.h"
#include "tenant/version_changes.h"

namespace itif::serving {

Status TenantService::leave_failed_device(const control::Progress& progress) {
  std::vector<device::Device*> failed;
  for (const auto& stage : stages_)
    if (stage && stage->device_failed() && std::ranges::count(failed, &stage->device()) == 0)
      failed.push_back(&stage->device());
  Status first;
  for (device::Device* device : failed) {
    // All its groups move, because the others are about to meet the same failure.
    Status left = leave_device(*device, progress);
    if (first) first = std::move(left);
  }
  return first;
}

Status TenantService::leave_device(device::Device& device, const control::Progress& progress) {
  auto next = devices_.take_out(device);
  if (next) return move_groups(device, **next, progress);
  for (Serving& serving : tenants_)
    if (const Model* active = serving.active();
        active != nullptr && &stages_[active->served.group]->device() == &device)
      set_failure(serving, "its device has failed: " + next.error().message);
  return std::unexpected(next.error());
}

Status TenantService::reset_device(const control::Progress& progress) {
  device::Device& device = devices_.to_reset();
  if (!devices_.has_fallback()) return device.reset();  // a host device, which refuses to be reset
  ITIF_ASSIGN(device::Device * meanwhile, devices_.take_out(device));
  ITIF_TRY(move_groups(device, *meanwhile, progress));
  wait_for_all_left();
  ITIF_TRY(device.reset());
  devices_.put_back(device);
  return move_groups(*meanwhile, devices_.serving(), progress);
}

Status TenantService::move_groups(const device::Device& from, device::Device& to,
                                  const control::Progress& progress) {
  Status first;
  for (uint16_t number = 0; number < stages_.size(); ++number) {
    if (&from == &to || !stages_[number] || &stages_[number]->device() != &from) continue;
    const std::string name = stages_[number]->name();
    Status moved = move_group(number, to, progress);
    if (cancelled_.load()) return moved;
    if (moved) continue;
    log::error("group {} cannot move to {}: {}", name, to.info().kind, moved.error().message);
    if (first) first = std::move(moved);
  }
  return first;
}

// Creates the group again on `to` and moves its tenants, whose requests follow. A tenant that
// cannot move stays behind and is failed. Previous versions are not moved.
Status TenantService::move_group(uint16_t number, device::Device& to,
                                 const control::Progress& progress) {
  std::optional<uint16_t> target;
  const auto load_again = [&](const tenant::Record& record,
                              const tenant::Version& version) -> Result<Model> {
    try {
      ITIF_ASSIGN(backbone::OpenedModel opened,
                  backbone::open_model({version.model_dir, version.base_dir}));
      if (!target) {
        const execution::GroupStage& stage = *stages_[number];
        ITIF_ASSIGN(target, make_group(stage.name(), stage.group().spec(), to));
      }
      auto fresh = load_into(*target, record, version, std::move(opened), progress);
      if (!fresh && !stages_[*target])
        target.reset();  // load_into() dropped the group, which was still empty
      return fresh;
    } catch (const std::exception& e) {
      return unexpected_failure(version.model_dir, e);
    }
  };
  Status first;
  std::vector<std::pair<Model, uint32_t>> left;  // with their tenants' indices
  for (Serving& serving : tenants_) {
    const tenant::Record record = serving.info.record;
    for (const tenant::Version& version : all_versions(record)) {
      Model* model = serving.find(version.number);
      if (model == nullptr || model->served.group != number) continue;
      const bool is_active = version.number == record.version;
      if (!serving.serves(version.number)) continue;
      auto fresh = load_again(record, version);
      if (fresh) {
        const std::lock_guard lock(mutex_);
        std::swap(*model, *fresh);
        if (is_active) set_active(serving, *model);
        left.emplace_back(std::move(*fresh), serving.info.index);
        continue;
      }
      if (first) first = std::unexpected(fresh.error());
      if (cancelled_.load()) break;
      const std::string why =
          fmt::format("cannot move to {}: {}", to.info().kind, fresh.error().message);
      log::error("version {} of tenant {} {}", version.number, record.name, why);
      if (is_active)
        set_failure(serving, why);
      else
        fail_canary(serving, why);
    }
    if (cancelled_.load()) break;
    for (Model& spare : take_models(serving, [&](const Model& model) {
           return model.served.group == number && !serving.serves(model.served.version);
         }))
      left.emplace_back(std::move(spare), serving.info.index);
  }
  for (auto& [model, index] : left) leave({std::move(model)}, index, kNoTimeout);
  if (target) prepare_planner(*target, progress);
  return first;
}

}  // namespace itif::serving
