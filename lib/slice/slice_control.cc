#include "slice/slice_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace itif::slice {
namespace {

// A part of a share that no division distinguishes from rounding.
constexpr double kRoundingPart = 1e-6;

Status check(const GroupTerms& terms) {
  if (!(terms.weight > 0) || !std::isfinite(terms.weight))
    return fail(Code::kInvalidArgument,
                fmt::format("a group's weight is {}: use a number above 0", terms.weight));
  if (!(terms.knee_percent >= 0 && terms.knee_percent <= 100))
    return fail(Code::kInvalidArgument,
                fmt::format("a group's knee is {} %: use 0 (unknown) to 100", terms.knee_percent));
  return {};
}

Status unknown(uint32_t id) {
  return fail(Code::kNotFound, fmt::format("no group {}", id));
}

}  // namespace

const SliceControl::Group* SliceControl::find(uint32_t id) const noexcept {
  const auto found = std::ranges::find(groups_, id, &Group::id);
  return found == groups_.end() ? nullptr : &*found;
}

Status SliceControl::add(uint32_t id, const GroupTerms& terms, uint64_t now_ns) {
  ITIF_TRY(check(terms));
  if (find(id)) return fail(Code::kAlreadyExists, fmt::format("group {} exists", id));
  const double least_percent =
      options_.demand.least_percent * static_cast<double>(groups_.size() + 1);
  if (least_percent > options_.device_percent)
    return fail(
        Code::kResourceExhausted,
        fmt::format("{} groups of at least {} % exceed the {} % of the device: remove a "
                    "group, or lower the least share",
                    groups_.size() + 1, options_.demand.least_percent, options_.device_percent));
  groups_.push_back({.id = id,
                     .weight = terms.weight,
                     .demand = {options_.demand, terms.knee_percent, terms.slo_ns}});
  demands_.resize(groups_.size());
  targets_.resize(groups_.size());
  divide_now(&groups_.back(), now_ns);
  return {};
}

Status SliceControl::set_terms(uint32_t id, const GroupTerms& terms, uint64_t now_ns) {
  ITIF_TRY(check(terms));
  const auto group = std::ranges::find(groups_, id, &Group::id);
  if (group == groups_.end()) return unknown(id);
  group->weight = terms.weight;
  group->demand.set_knee(terms.knee_percent);
  group->demand.set_objective(terms.slo_ns);
  divide_now(nullptr, now_ns);
  return {};
}

Status SliceControl::remove(uint32_t id, uint64_t now_ns) {
  const auto group = std::ranges::find(groups_, id, &Group::id);
  if (group == groups_.end()) return unknown(id);
  groups_.erase(group);
  demands_.resize(groups_.size());
  targets_.resize(groups_.size());
  divide_now(nullptr, now_ns);
  return {};
}

void SliceControl::set_device_percent(double percent, uint64_t now_ns) noexcept {
  if (percent == options_.device_percent) return;
  options_.device_percent = percent;
  divide_now(nullptr, now_ns);
}

void SliceControl::observe(uint32_t id, const Observation& observation) noexcept {
  const auto group = std::ranges::find(groups_, id, &Group::id);
  if (group != groups_.end()) group->demand.observe(observation);
}

bool SliceControl::decide(uint64_t now_ns) noexcept {
  set_targets();
  bool has_changed = shrink(options_.least_change, now_ns);
  if (growth_percent(now_ns) > free_percent()) has_changed |= shrink(kRoundingPart, now_ns);
  return grow(now_ns) || has_changed;
}

double SliceControl::share_percent(uint32_t id) const noexcept {
  const Group* group = find(id);
  return group ? group->share_percent : 0;
}

double SliceControl::demand_percent(uint32_t id) const noexcept {
  const Group* group = find(id);
  return group ? group->demand.percent() : 0;
}

uint64_t SliceControl::slo_ns(uint32_t id) const noexcept {
  const Group* group = find(id);
  return group ? group->demand.slo_ns() : 0;
}

void SliceControl::set_targets() noexcept {
  for (size_t i = 0; i < groups_.size(); ++i)
    demands_[i] = {.percent = groups_[i].demand.percent(), .weight = groups_[i].weight};
  divide(demands_,
         {.percent = options_.device_percent,
          .least_percent = options_.demand.least_percent,
          .unmet_demands = options_.unmet_demands},
         targets_);
}

void SliceControl::divide_now(const Group* joined, uint64_t now_ns) noexcept {
  set_targets();
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    const double target = targets_[i], share = group.share_percent;
    if (&group == joined) {
      group.share_percent = target;
      group.demand.changed(target);  // its first change by load needs no hold-down
    } else if (target < share * (1 - kRoundingPart) ||
               target > share * (1 + options_.least_change)) {
      move(group, target, now_ns);
    }
  }
}

bool SliceControl::can_grow(size_t index, uint64_t now_ns) const noexcept {
  const Group& group = groups_[index];
  return now_ns >= group.held_until_ns &&
         targets_[index] > group.share_percent * (1 + options_.least_change);
}

bool SliceControl::shrink(double least_change, uint64_t now_ns) noexcept {
  bool has_changed = false;
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (now_ns < group.held_until_ns) continue;
    if (targets_[i] >= group.share_percent * (1 - least_change)) continue;
    move(group, targets_[i], now_ns);
    has_changed = true;
  }
  return has_changed;
}

bool SliceControl::grow(uint64_t now_ns) noexcept {
  const double growth = growth_percent(now_ns);
  if (growth <= 0) return false;
  const double part = std::min(1.0, free_percent() / growth);
  bool has_changed = false;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!can_grow(i, now_ns)) continue;
    Group& group = groups_[i];
    const double rise = (targets_[i] - group.share_percent) * part;
    if (rise < group.share_percent * options_.least_change) continue;
    move(group, group.share_percent + rise, now_ns);
    has_changed = true;
  }
  return has_changed;
}

void SliceControl::move(Group& group, double percent, uint64_t now_ns) noexcept {
  group.share_percent = percent;
  group.held_until_ns = now_ns + options_.hold_down_ns;
  group.demand.changed(percent);
}

double SliceControl::free_percent() const noexcept {
  double percent = options_.device_percent;
  for (const Group& group : groups_) percent -= group.share_percent;
  return std::max(0.0, percent);
}

double SliceControl::growth_percent(uint64_t now_ns) const noexcept {
  double percent = 0;
  for (size_t i = 0; i < groups_.size(); ++i)
    if (can_grow(i, now_ns)) percent += targets_[i] - groups_[i].share_percent;
  return percent;
}

}  // namespace itif::slice
