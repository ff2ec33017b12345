// The tenant service's device: moves groups to the fallback on a failure, and back after a reset.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "serving/tenant_service.h"

namespace itif::serving {

void TenantService::set_fallback(OpenDevice open, std::function<void()> on_failure) {
  open_fallback_ = std::move(open);
  stage_options_.on_device_failed = std::move(on_failure);
}

device::Device& TenantService::serving_device() const noexcept {
  return uses_fallback() ? *fallback_ : device_;
}

Status TenantService::use_fallback() {
  if (!fallback_) {
    if (!open_fallback_) return fail(Code::kUnavailable, "there is no device to fall back on");
    ITIF_ASSIGN(fallback_, open_fallback_());
  }
  uses_fallback_.store(true);
  return {};
}

Status TenantService::leave_failed_device(const control::Progress& progress) {
  const bool any_failed = std::ranges::any_of(stages_, [this](const auto& stage) {
    return stage && stage->device_failed() && &stage->device() == &device_;
  });
  if (!any_failed) return {};
  // All groups move, because the others are about to meet the same failure.
  if (Status used = use_fallback(); !used) {
    for (Serving& serving : tenants_)
      if (serving.info.model && &stages_[serving.group]->device() == &device_)
        set_failure(serving, "its device has failed: " + used.error().message);
    return used;
  }
  return move_groups(device_, *fallback_, progress);
}

Status TenantService::reset_device(const control::Progress& progress) {
  if (!open_fallback_) return device_.reset();  // a host device, which refuses to be reset
  ITIF_TRY(use_fallback());
  ITIF_TRY(move_groups(device_, *fallback_, progress));
  ITIF_TRY(device_.reset());
  uses_fallback_.store(false);
  return move_groups(*fallback_, device_, progress);
}

Status TenantService::move_groups(const device::Device& from, device::Device& to,
                                  const control::Progress& progress) {
  Status first;
  for (uint16_t number = 0; number < stages_.size(); ++number) {
    if (!stages_[number] || &stages_[number]->device() != &from) continue;
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
// cannot move stays behind and is failed.
Status TenantService::move_group(uint16_t number, device::Device& to,
                                 const control::Progress& progress) {
  std::optional<uint16_t> target;
  const auto load_again = [&](const tenant::Record& record) -> Result<Serving> {
    try {
      if (!target) {
        const pipeline::GroupStage& stage = *stages_[number];
        ITIF_ASSIGN(target, make_group(stage.name(), stage.group().spec(), to));
      }
      auto fresh = load_into(*target, record, progress);
      if (!fresh && !stages_[*target])
        target.reset();  // load_into() dropped the group, which was still empty
      return fresh;
    } catch (const std::exception& e) {
      return unexpected_failure(record, e);
    }
  };
  Status first;
  std::vector<Serving> left;
  for (Serving& serving : tenants_) {
    if (!serving.info.model || serving.group != number) continue;
    auto fresh = load_again(serving.info.record);
    if (fresh) {
      replace(serving, *fresh);
      left.push_back(std::move(*fresh));
      continue;
    }
    if (first) first = std::unexpected(fresh.error());
    if (cancelled_.load()) break;
    const std::string why =
        fmt::format("cannot move to {}: {}", to.info().kind, fresh.error().message);
    log::error("tenant {} {}", serving.info.record.name, why);
    set_failure(serving, why);
  }
  for (Serving& serving : left) leave(std::move(serving));
  if (target) prepare_planner(*target, progress);
  return first;
}

}  // namespace itif::serving
