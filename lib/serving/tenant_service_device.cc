// Moves the tenant service's groups between devices: to a fallback on a failure, and back after a
// reset.
#include <fmt/format.h>

#include <algorithm>
#include <map>
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
  if (next) {
    log::warning(
        "all groups leave the {} device, which has failed, for {}: `itifctl device reset` brings "
        "them back, or `itifctl handover` if the device cannot be reset",
        device.info().kind, (*next)->info().kind);
    return move_groups(device, **next, progress);
  }
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
  if (const Status moved = move_groups(device, *meanwhile, progress); !moved)
    return still_used(device, moved.error());
  wait_for_all_left();
  if (Status reset = device.reset(); !reset) {
    if (reset.error().code == Code::kUnavailable) return still_used(device, reset.error());
    devices_.note_failed_reset();
    log::error("the reset of the {} device has failed: {}", device.info().kind,
               reset.error().message);
    return reset;
  }
  devices_.put_back(device);
  return move_groups(*meanwhile, devices_.serving(), progress);
}

// Returns the error of a reset that was not tried, with what uses the device's memory and what to
// do. The device is not lost.
std::unexpected<Error> TenantService::still_used(const device::Device& device,
                                                 const Error& error) const {
  std::vector<std::string> users;
  for (const GroupInfo& group : groups()) {
    if (&stages_[group.number]->device() != &device) continue;
    const uint32_t in_flight = group.waiting + group.executing;
    users.push_back(group.tenant_names.empty()
                        ? fmt::format("group {} (no tenant, {} requests)", group.name, in_flight)
                        : fmt::format("group {} (tenants {})", group.name,
                                      fmt::join(group.tenant_names, ", ")));
  }
  const std::string remedy =
      users.empty()
          ? "no group uses it: run `itifctl device reset` again, or `itifctl handover` if that "
            "does "
            "not help"
          : fmt::format(
                "{} still uses the {} device: resolve this, or remove its tenants, then "
                "run `itifctl device reset` again",
                fmt::join(users, ", "), device.info().kind);
  return fail(error.code, fmt::format("{}; {}", error.message, remedy));
}

struct TenantService::Move {
  uint16_t from = 0;
  std::string name;
  std::optional<uint16_t> to;  // a group on the other device, made for its first model
  size_t num_pending = 0;      // loads
  bool has_failed = false;
  std::vector<std::pair<Model, uint32_t>>
      left;  // models that no longer serve; their tenants' indices
};

// Creates the groups of `from` again on `to` and moves their tenants, whose requests follow. A
// tenant that cannot move stays behind and is failed. Previous versions are not moved.
Status TenantService::move_groups(const device::Device& from, device::Device& to,
                                  const control::Progress& progress) {
  if (&from == &to) return {};
  std::map<uint16_t, Move> moves;  // by group number
  for (uint16_t number = 0; number < stages_.size(); ++number)
    if (stages_[number] && &stages_[number]->device() == &from)
      moves[number] = {.from = number, .name = stages_[number]->name(), .to = {}, .left = {}};
  std::vector<Load> loads;
  std::vector<Move*> move_of;  // each load
  for (const Serving& serving : tenants_)
    for (const tenant::Version& version : all_versions(serving.info.record)) {
      const Model* model = serving.find(version.number);
      if (model == nullptr || !serving.serves(version.number)) continue;
      const auto found = moves.find(model->served.group);
      if (found == moves.end()) continue;
      Move& move = found->second;
      ++move.num_pending;
      move_of.push_back(&move);
      loads.push_back(
          {.record = serving.info.record,
           .version = version,
           .choose_group = [&move, &to, this](const backbone::OpenedModel&) -> Result<uint16_t> {
             if (!is_there(move, to)) {
               ITIF_ASSIGN(move.to, make_group(move.name, stages_[move.from]->group().spec(), to));
             }
             return *move.to;
           }});
    }
  for (auto& [number, move] : moves)
    if (move.num_pending == 0) finish_move(move);
  Status first;
  const std::vector<Load> all = loads;
  load_all(std::move(loads), progress, [&](size_t i, Result<Model> fresh) {
    Move& move = *move_of[i];
    const tenant::Version& version = all[i].version;
    Serving& serving = *find(all[i].record.id);
    const bool is_active = version.number == serving.info.record.version;
    tenant::Record record = serving.info.record;
    if (fresh) fresh = renumber(record, version, *std::move(fresh), progress);
    if (fresh) {
      const std::lock_guard lock(mutex_);
      Model& model = *serving.find(version.number);
      std::swap(model, *fresh);
      serving.info.record = std::move(record);
      note_load(serving.info.record, model);
      if (is_active) set_active(serving, model);
      move.left.emplace_back(std::move(*fresh), serving.info.index);
    } else {
      move.has_failed = true;
      if (first) first = std::unexpected(fresh.error());
      if (!cancelled_.load()) {
        const std::string why =
            fmt::format("cannot move to {}: {}", to.info().kind, fresh.error().message);
        log::error("version {} of tenant {} {}", version.number, all[i].record.name, why);
        if (is_active)
          set_failure(serving, why);
        else
          fail_canary(serving, why);
      }
    }
    if (--move.num_pending == 0) finish_move(move);
  });
  for (auto& [number, move] : moves) {
    if (cancelled_.load()) break;
    if (move.has_failed)
      log::error("some tenants of group {} cannot move to {}", move.name, to.info().kind);
    if (is_there(move, to)) prepare_planner(*move.to, progress);
  }
  return first;
}

// Returns false if the new group is not made, or is removed again because its models failed.
bool TenantService::is_there(const Move& move, const device::Device& to) const {
  if (!move.to || !stages_[*move.to]) return false;
  const execution::GroupStage& stage = *stages_[*move.to];
  return &stage.device() == &to && stage.name() == move.name;
}

// Publishes the models of the new group, and frees those of the old one once no request needs them.
void TenantService::finish_move(Move& move) {
  for (Serving& serving : tenants_) {
    if (cancelled_.load()) break;
    for (Model& spare : take_models(serving, [&](const Model& model) {
           return model.served.group == move.from && !serving.serves(model.served.version);
         }))
      move.left.emplace_back(std::move(spare), serving.info.index);
  }
  for (auto& [model, index] : move.left) leave({std::move(model)}, index, kNoTimeout);
  move.left.clear();
}

}  // namespace itif::serving
