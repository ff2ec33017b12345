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

Status TenantService::leave_failed_device(const model::Progress& progress) {
  const bool any_failed = std::ranges::any_of(stages_, [this](const auto& stage) {
    return stage && stage->device_failed() && &stage->device() == &device_;
  });
  if (!any_failed) return {};
  // All groups move, because the others are about to meet the same failure.
  ITIF_TRY(use_fallback());
  return move_groups(device_, *fallback_, progress);
}

Status TenantService::reset_device(const model::Progress& progress) {
  if (!open_fallback_) return device_.reset();  // a host device, which refuses to be reset
  ITIF_TRY(use_fallback());
  ITIF_TRY(move_groups(device_, *fallback_, progress));
  ITIF_TRY(device_.reset());
  uses_fallback_.store(false);
  return move_groups(*fallback_, device_, progress);
}

Status TenantService::move_groups(const device::Device& from, device::Device& to,
                                  const model::Progress& progress) {
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

// Creates the group again on `to` and moves its tenants, whose requests follow. A tenant whose
// model cannot be loaded stays behind.
Status TenantService::move_group(uint16_t number, device::Device& to,
                                 const model::Progress& progress) {
  const std::string name = stages_[number]->name();
  std::optional<uint16_t> target;
  Status first;
  std::vector<Serving> left;
  for (Serving& serving : tenants_) {
    if (!serving.entry.loaded || serving.group != number) continue;
    if (!target) {
      ITIF_ASSIGN(target, make_group(name, stages_[number]->group().spec(), to));
    }
    auto fresh = load_into(*target, serving.entry.settings, progress);
    if (!fresh) {
      log::error("tenant {} cannot move to {}: {}", serving.entry.settings.name, to.info().kind,
                 fresh.error().message);
      if (first) first = std::unexpected(fresh.error());
      if (!stages_[*target])
        target.reset();  // load_into() dropped the group, which was still empty
      continue;
    }
    fresh->entry.index = serving.entry.index;
    fresh->entry.before = serving.entry.before;
    const std::lock_guard lock(mutex_);
    std::swap(serving, *fresh);
    left.push_back(std::move(*fresh));
  }
  for (Serving& serving : left) leave(std::move(serving));
  if (target) prepare_planner(*target, progress);
  return first;
}

}  // namespace itif::serving
