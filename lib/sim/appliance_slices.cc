// The groups' parts of a divided device.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/appliance.h"

namespace itif::sim {

slice::GroupTerms Appliance::terms_of(size_t index) const {
  const GroupScenario& group = scenario_.group(index);
  uint64_t slo_ns = group.slice.slo_ns;
  if (slo_ns == 0)
    for (const TenantChoice& tenant : group.tenants)
      if (const uint64_t own_ns = tenant.settings.slo_ns; own_ns > 0)
        slo_ns = slo_ns == 0 ? own_ns : std::min(slo_ns, own_ns);
  return {.weight = group.slice.weight, .knee_percent = group.slice.knee, .slo_ns = slo_ns};
}

bool Appliance::divide_device() {
  const SliceOptions& slices = scenario_.slices;
  if (slices.mode == SliceMode::kNone) return false;
  const uint64_t now_ns = clock_.now_ns();
  if (slices.mode == SliceMode::kTuned && !tuner_)
    tuner_ = std::make_unique<execution::SliceTuner>(
        execution::SliceTunerOptions{.control = {.demand = {.first_percent = slices.first_percent},
                                                 .unmet_demands = slices.unmet_demands,
                                                 .hold_down_ns = slices.hold_down_ns},
                                     .period_ns = slices.period_ns,
                                     .lends = slices.lends});
  bool has_changed = false;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const SliceChoice& slice = scenario_.group(i).slice;
    const uint64_t at_ns = now_ns - start_ns_;
    const bool has_slice = at_ns >= slice.from_ns && at_ns < slice.until_ns;
    if (std::exchange(groups_[i].has_slice, has_slice) == has_slice) continue;
    has_changed = true;
    groups_[i].idle.start(now_ns);
    const auto id = static_cast<uint32_t>(i);
    if (tuner_)
      CHECK(has_slice ? tuner_->add(id, *groups_[i].stage, terms_of(i), now_ns)
                      : tuner_->remove(id, now_ns));
  }
  if (has_changed) give_parts();
  return has_changed;
}

void Appliance::update_parts() {
  const uint64_t now_ns = clock_.now_ns();
  bool has_changed = tuner_ && tuner_->tick(now_ns);
  if (scenario_.slices.lends && now_ns >= next_look_ns_) {
    next_look_ns_ = now_ns + execution::IdleWatch::kLookNs;
    for (Group& group : groups_)
      if (group.has_slice) has_changed |= group.idle.look(*group.stage, now_ns);
  }
  if (has_changed) give_parts();
}

// An idle group keeps its own part, on which its next batch begins. The other groups have that
// part, too, until the group works again.
void Appliance::give_parts() {
  double busy = 0, idle = 0;
  for (size_t i = 0; i < groups_.size(); ++i)
    (groups_[i].idle.is_idle() ? idle : busy) += own_percent(i);
  const double factor = execution::lending_factor(busy, idle);
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    group.lent_percent = own_percent(i) * (group.idle.is_idle() ? 1 : factor);
    if (!group.has_slice) continue;
    group.stage->set_share(group.lent_percent);
    if (tuner_) tuner_->note_given(static_cast<uint32_t>(i), group.lent_percent);
  }
}

double Appliance::share_percent(size_t group) const noexcept {
  return scenario_.slices.mode == SliceMode::kNone ? 100 : groups_[group].lent_percent;
}

double Appliance::own_percent(size_t group) const noexcept {
  if (tuner_) return tuner_->given_percent(static_cast<uint32_t>(group));
  if (!groups_[group].has_slice) return 0;
  if (const double percent = scenario_.group(group).slice.percent; percent > 0) return percent;
  double left = 100, num_without = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const double percent = scenario_.group(i).slice.percent;
    if (percent > 0)
      left -= percent;
    else if (groups_[i].has_slice)
      ++num_without;
  }
  return left / num_without;
}

// Returns when a group comes or goes next, or the tuner decides.
uint64_t Appliance::next_division_ns() const noexcept {
  uint64_t next_ns = tuner_ ? tuner_->next_ns() : UINT64_MAX;
  if (scenario_.slices.mode == SliceMode::kNone) return next_ns;
  if (scenario_.slices.lends && groups_.size() > 1) next_ns = std::min(next_ns, next_look_ns_);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const SliceChoice& slice = scenario_.group(i).slice;
    for (const uint64_t at_ns : {slice.from_ns, slice.until_ns})
      if (at_ns != UINT64_MAX && start_ns_ + at_ns > clock_.now_ns())
        next_ns = std::min(next_ns, start_ns_ + at_ns);
  }
  return next_ns;
}

}  // namespace itif::sim
