#include "serving/group_shares.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace itif::serving {
namespace {

constexpr uint64_t kTuningNs = 500'000'000;  // between two decisions
constexpr double kLeastPercent = slice::DemandOptions{}.least_percent;
constexpr double kWholeDevice = 0;  // a stream without a share, if processors are divided

// Returns true if only this class can give the group's part to others while it is idle.
bool can_lend(const execution::GroupStage& stage) {
  return stage.device().info().division == device::Division::kProcessors;
}

}  // namespace

GroupShares::GroupShares(const Clock& clock, const Options& options)
    : clock_(clock),
      tunes_(options.tunes),
      tuner_({.control = {.unmet_demands = options.unmet_demands,
                          .hold_down_ns = options.hold_down_ns},
              .period_ns = kTuningNs}) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "itif-shares");
    run();
  });
}

GroupShares::~GroupShares() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ends_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GroupShares::run() {
  std::unique_lock lock(mutex_);
  while (
      !ends_.wait_for(lock, std::chrono::nanoseconds(period_ns()), [this] { return is_ending_; })) {
    if (std::ranges::any_of(groups_, is_measured)) continue;
    look_for_idle_groups(clock_.now_ns());
    if (!tunes_ || !tuner_.tick(clock_.now_ns())) continue;
    give();
    for (const Group& group : groups_)
      if (is_tuned(group))
        log::debug("group {}: share {:.1f} %, of {:.1f} % that it asks for", group.stage->name(),
                   tuner_.share_percent(group.number), tuner_.demand_percent(group.number));
  }
}

bool GroupShares::is_measured(const Group& group) noexcept {
  return group.measured_percent > 0;
}

GroupShares::Group* GroupShares::find(uint16_t number) {
  const auto found = std::ranges::find(groups_, number, &Group::number);
  return found == groups_.end() ? nullptr : &*found;
}

void GroupShares::add(uint16_t number, execution::GroupStage& stage, const Entry& entry) {
  if (stage.device().info().division == device::Division::kNone) return;
  const std::lock_guard lock(mutex_);
  CHECK(!find(number));
  groups_.push_back({entry, number, &stage});
  groups_.back().idle.start(clock_.now_ns());
  const device::DeviceInfo& device = stage.device().info();
  const auto num_groups = static_cast<uint32_t>(std::ranges::count(
      groups_, &stage.device(), [](const Group& group) { return &group.stage->device(); }));
  if (can_lend(stage) && device.slice_steps > 0 && num_groups == device.slice_steps + 1)
    log::warning(
        "more groups than the {} slices of device {}: while all compute, each has one, whatever "
        "its "
        "share, and some have the same one",
        device.slice_steps, device.kind);
  divide();
}

void GroupShares::begin(uint16_t number) {
  const std::lock_guard lock(mutex_);
  Group* group = find(number);
  if (!group || !group->yields) return;
  group->yields = false;
  divide();
}

void GroupShares::remove(uint16_t number) {
  const std::lock_guard lock(mutex_);
  const Group* group = find(number);
  if (!group) return;
  if (is_tuned(*group)) CHECK(tuner_.remove(number, clock_.now_ns()));
  std::erase_if(groups_, [number](const Group& g) { return g.number == number; });
  divide();
}

void GroupShares::set_own_cpus(uint16_t number, const std::vector<unsigned>& cpus) {
  const std::lock_guard lock(mutex_);
  Group* group = find(number);
  if (!group || group->own_cpus == cpus) return;
  if (is_tuned(*group) && !cpus.empty()) CHECK(tuner_.remove(number, clock_.now_ns()));
  group->own_cpus = cpus;
  divide();
}

void GroupShares::set(uint16_t number, uint32_t percent) {
  const std::lock_guard lock(mutex_);
  Group* group = find(number);
  if (!group) return;
  if (is_tuned(*group) && percent != 0) CHECK(tuner_.remove(number, clock_.now_ns()));
  group->set_percent = percent;
  divide();
}

void GroupShares::measure(uint16_t number, uint32_t percent) {
  const std::lock_guard lock(mutex_);
  Group* group = find(number);
  if (!group) return;
  group->measured_percent = percent;
  give();
}

void GroupShares::end_measuring(uint16_t number) {
  const std::lock_guard lock(mutex_);
  Group* group = find(number);
  if (!group) return;
  group->measured_percent = 0;
  tuner_.skip(clock_.now_ns());
  give();
}

void GroupShares::set_weight(uint16_t number, uint32_t weight) {
  const std::lock_guard lock(mutex_);
  Group* group = find(number);
  if (!group || group->weight == weight) return;
  group->weight = weight;
  if (is_tuned(*group))
    set_terms(*group);
  else
    divide();
}

void GroupShares::set_objective(uint16_t number, uint64_t slo_ns) {
  const std::lock_guard lock(mutex_);
  Group* group = find(number);
  if (!group || group->slo_ns == slo_ns) return;
  group->slo_ns = slo_ns;
  set_terms(*group);
}

void GroupShares::set_knee(uint16_t number, double percent) {
  const std::lock_guard lock(mutex_);
  Group* group = find(number);
  if (!group) return;
  group->knee_percent = percent;
  set_terms(*group);
}

void GroupShares::set_terms(const Group& group) {
  if (!is_tuned(group)) return;
  CHECK(tuner_.set_terms(group.number, terms_of(group), clock_.now_ns()));
  give();
}

void GroupShares::divide() {
  const auto is_first = [this](const Group& group) {
    return &*std::ranges::find(groups_, group.own_cpus, &Group::own_cpus) == &group;
  };
  for (const Group& group : groups_)
    if (is_first(group)) divide(group.own_cpus);
  give();
}

// Each group with less than the least part gets that, and the others divide what is left.
double GroupShares::part_per_weight(const std::vector<unsigned>& own_cpus,
                                    double percent) const noexcept {
  const auto is_counted = [&](const Group& group) {
    return !group.yields && group.own_cpus == own_cpus && group.set_percent == 0;
  };
  double part = std::numeric_limits<double>::infinity(), before = part;
  do {
    double rest = percent, weights = 0;
    for (const Group& group : groups_) {
      if (!is_counted(group)) continue;
      if (part * group.weight < kLeastPercent)
        rest -= kLeastPercent;
      else
        weights += group.weight;
    }
    before = std::exchange(part, weights > 0 ? rest / weights : part);
  } while (part < before);
  return part;
}

// Gives the groups without a set share what is left, at least 1 % each.
void GroupShares::divide(const std::vector<unsigned>& own_cpus) {
  double set_percent = 0, num_others = 0;
  for (const Group& group : groups_) {
    if (group.yields || group.own_cpus != own_cpus) continue;
    set_percent += group.set_percent;
    num_others += group.set_percent == 0;
  }
  const double left = std::max(kLeastPercent * num_others, 100 - set_percent);
  const double per_weight = part_per_weight(own_cpus, left);
  const uint64_t now_ns = clock_.now_ns();
  if (tunes_ && num_others > 0 && own_cpus.empty()) tuner_.set_device_percent(left, now_ns);
  for (Group& group : groups_) {
    if (group.own_cpus != own_cpus) continue;
    if (group.yields) {
      group.part_percent = kLeastPercent;
      continue;
    }
    if (is_tuned(group)) {
      if (tuner_.share_percent(group.number) == 0)
        CHECK(tuner_.add(group.number, *group.stage, terms_of(group), now_ns));
      continue;
    }
    group.part_percent = group.set_percent == 0 ? std::max(kLeastPercent, group.weight * per_weight)
                                                : group.set_percent;
  }
}

// Gives each group its part, and a part of what idle groups lend. An idle group has no
// multiprocessors of its own then. Its next batch runs on all of them, beside the others' batches,
// so that a group with rare requests is not slower for it. The same holds for the groups beside a
// measured one.
void GroupShares::give() noexcept {
  const auto part_of = [this](const Group& group) {
    return is_tuned(group) ? tuner_.given_percent(group.number) : group.part_percent;
  };
  double lent = 0, busy = 0;
  for (const Group& group : groups_)
    if (!is_measured(group)) (group.idle.is_idle() ? lent : busy) += part_of(group);
  const double factor = execution::lending_factor(busy, lent);
  for (const Group& group : groups_) {
    double percent = factor * part_of(group);
    if (is_measured(group))
      percent = group.measured_percent;
    else if ((group.idle.is_idle() && busy > 0) || is_beside_measured(group))
      percent = kWholeDevice;
    group.stage->set_share(percent);
    tuner_.note_given(group.number, percent == kWholeDevice ? 100 : percent);
  }
}

bool GroupShares::is_beside_measured(const Group& group) const noexcept {
  return can_lend(*group.stage) && std::ranges::any_of(groups_, [&group](const Group& other) {
           return is_measured(other) && &other != &group &&
                  &other.stage->device() == &group.stage->device();
         });
}

void GroupShares::look_for_idle_groups(uint64_t now_ns) noexcept {
  bool has_changed = false;
  for (Group& group : groups_)
    if (can_lend(*group.stage)) has_changed |= group.idle.look(*group.stage, now_ns);
  if (has_changed) give();
}

uint64_t GroupShares::period_ns() const noexcept {
  const bool any = std::ranges::any_of(groups_, [](const Group& g) { return can_lend(*g.stage); });
  return any && groups_.size() > 1 ? execution::IdleWatch::kLookNs : kTuningNs;
}

double GroupShares::percent_of(const Group& group) const noexcept {
  return is_tuned(group) ? tuner_.share_percent(group.number) : group.part_percent;
}

GroupShares::Share GroupShares::share(uint16_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(groups_, number, &Group::number);
  if (found == groups_.end()) return {};
  double sum = 0;
  for (const Group& group : groups_)
    if (group.own_cpus == found->own_cpus) sum += percent_of(group);
  // Streams have parts of the time in proportion to their shares, so shares of more than 100 % in
  // all are smaller parts.
  return {.percent = percent_of(*found) * (sum > 100 ? 100 / sum : 1),
          .demand = is_tuned(*found) ? tuner_.demand_percent(number) : 0,
          .weight = found->weight};
}

}  // namespace itif::serving
