// The tenant service's versions: swaps them, frees those that no request needs, removes tenants.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/log.h"
#include "serving/sample_check.h"
#include "serving/tenant_service.h"
#include "telemetry/version_counts.h"
#include "tenant/version_changes.h"

namespace itif::serving {
namespace {

using telemetry::LatencyBuckets;
using tenant::VersionState;

// Longest wait for the last requests of a version. Its slot is freed later, by free_unused().
constexpr uint64_t kSettleTimeoutNs = 10'000'000'000;
// Longest time for all samples of a model, while its group serves others.
constexpr uint64_t kSamplesTimeoutNs = 60'000'000'000;

}  // namespace

const TenantService::Model* TenantService::Serving::find(uint32_t version) const {
  const auto found = std::ranges::find_if(
      models, [&](const Model& model) { return model.served.version == version; });
  return found == models.end() ? nullptr : &*found;
}

TenantService::Model* TenantService::Serving::find(uint32_t version) {
  return const_cast<Model*>(std::as_const(*this).find(version));
}

const TenantService::Model* TenantService::Serving::canary() const {
  const tenant::Version* version = find_version(info.record, VersionState::kCanary);
  return version == nullptr ? nullptr : find(version->number);
}

bool TenantService::Serving::serves(uint32_t version) const {
  if (version == info.record.version) return true;
  const tenant::Version* canary = find_version(info.record, VersionState::kCanary);
  return canary != nullptr && canary->number == version;
}

uint32_t TenantService::Serving::in_flight() const {
  uint32_t sum = 0;
  for (const Model& model : models) sum += model.served.lease->num_in_flight();
  return sum;
}

std::optional<TenantInfo::CanaryElsewhere> TenantService::Serving::canary_elsewhere() const {
  const Model *const at_active = active(), *const at_canary = canary();
  if (at_active == nullptr || at_canary == nullptr ||
      at_active->served.group == at_canary->served.group)
    return std::nullopt;
  const auto answered = [&](const Model& model) {
    const auto found = counts.find(model.served.version);
    return found == counts.end() ? 0 : found->second->sum().answered;
  };
  return TenantInfo::CanaryElsewhere{.group = at_canary->info.group,
                                     .answered_by_active = answered(*at_active),
                                     .answered_by_canary = answered(*at_canary)};
}

bool TenantService::Leaving::is_unused(const tenant::SnapshotCell& cell) const {
  return cell.readers_passed(generation) && model.served.lease->num_in_flight() == 0;
}

std::shared_ptr<telemetry::VersionCounts> TenantService::counts_of(uint32_t id, uint32_t version) {
  const std::lock_guard lock(mutex_);
  auto& counts = find(id)->counts[version];
  if (!counts) counts = std::make_shared<telemetry::VersionCounts>(pipeline_.workers().size());
  return counts;
}

// Loads the canaries of tenants that have just been loaded. Without its canary, a tenant's active
// version answers all requests.
void TenantService::load_canaries(const std::vector<uint32_t>& ids,
                                  const control::Progress& progress) {
  std::vector<Load> loads;
  for (const uint32_t id : ids) {
    const Serving& serving = *find(id);
    const tenant::Version* found = find_version(serving.info.record, VersionState::kCanary);
    if (found != nullptr && serving.canary() == nullptr)
      loads.push_back(load_of(serving.info.record, *found, progress));
  }
  const std::vector<Load> all = loads;
  load_all(std::move(loads), progress, [&](size_t i, Result<Model> loaded) {
    Serving& serving = *find(all[i].record.id);
    tenant::Record record = serving.info.record;
    if (loaded) loaded = renumber(record, all[i].version, *std::move(loaded), progress);
    if (!loaded) {
      log::error("version {} of tenant {}, a canary, is not loaded: {}", all[i].version.number,
                 serving.info.record.name, loaded.error().message);
      return fail_canary(serving, loaded.error().message);
    }
    {
      const std::lock_guard lock(mutex_);
      serving.info.canary_failure.clear();
      serving.info.record = std::move(record);
      note_load(serving.info.record, *loaded);
      serving.models.push_back(std::move(*loaded));
    }
    publish();
  });
}

// Lets the active version answer all requests.
void TenantService::fail_canary(Serving& serving, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    serving.info.canary_failure = why;
  }
  const Model* canary = serving.canary();
  if (canary == nullptr) return;
  leave(take_models(serving, [&](const Model& model) { return &model == canary; }),
        serving.info.index, kSettleTimeoutNs);
}

// Asks the model, which does not serve yet, for its samples. Unloads it if it fails.
Status TenantService::check(const Model& model, const std::string& directory, uint32_t index,
                            const control::Progress& progress) {
  auto samples = model::read_samples(directory);
  Status good;
  if (!samples) {
    good = std::unexpected(samples.error());
  } else if (!samples->empty()) {
    if (progress) progress("checking samples", 0);
    const uint64_t start_ns = clock_.now_ns();
    const auto gives_up = [&] {
      return cancelled_.load() || clock_.now_ns() - start_ns > kSamplesTimeoutNs;
    };
    good = check_samples(*samples, pipeline_.local(), stages_[model.served.group]->inbox(),
                         model.served, gives_up);
    if (good && progress) progress("checking samples", 1);
  }
  if (!good) leave({model}, index, kSettleTimeoutNs);
  return good;
}

Status TenantService::update(const tenant::Record& record, Loads loads,
                             const control::Progress& progress) {
  Serving* serving = find(record.id);
  if (serving == nullptr || !serving->info.model)
    return fail(Code::kNotFound, fmt::format("tenant {} is not being served", record.id));
  std::vector<Model> fresh;
  tenant::Record next = record;
  for (const tenant::Version& version : all_versions(record)) {
    if (version.state != VersionState::kActive && version.state != VersionState::kCanary) continue;
    const bool is_loaded = serving->find(version.number) != nullptr;
    const bool is_canary = version.state == VersionState::kCanary;
    if (loads != Loads::kAll && (is_loaded || (is_canary && loads == Loads::kActive))) continue;
    auto loaded = load(next, version, origin_of(serving->info.record, version), progress);
    if (!loaded) {
      for (const Model& model : fresh) unload(model);
      return std::unexpected(loaded.error());
    }
    fresh.push_back(std::move(*loaded));
  }
  std::vector<Model> replaced = take_models(*serving, [&](const Model& model) {
    return std::ranges::any_of(
        fresh, [&](const Model& f) { return f.served.version == model.served.version; });
  });
  {
    const std::lock_guard lock(mutex_);
    serving->info.record = std::move(next);
    for (const Model& model : serving->models) note_load(serving->info.record, model);
    for (Model& model : fresh) note_load(serving->info.record, model);
    for (Model& model : fresh) serving->models.push_back(std::move(model));
    const Model* active = serving->active();
    if (!fresh.empty() || serving->info.condition == tenant::Condition::kLoaded)
      set_active(*serving, *active);
    const bool has_canary = find_version(serving->info.record, VersionState::kCanary) != nullptr;
    if (!has_canary || serving->canary() != nullptr) serving->info.canary_failure.clear();
  }
  if (!replaced.empty()) {
    leave(std::move(replaced), serving->info.index, kSettleTimeoutNs);
    return {};
  }
  // From now on, no request that arrives is answered by the versions before.
  const uint64_t generation = publish();
  wait_until([&] { return pipeline_.shared().tenants.readers_passed(generation); }, kNoTimeout);
  return {};
}

void TenantService::settle(uint32_t id) {
  Serving* serving = find(id);
  if (serving == nullptr) return;
  const tenant::Record& record = serving->info.record;
  const tenant::Version* previous = find_version(record, VersionState::kPrevious);
  const Model* active = serving->active();
  const auto is_spare = [&](const Model& model) {
    if (serving->serves(model.served.version)) return false;
    // A previous version in another group would keep that group and its workspace alive.
    return previous == nullptr || model.served.version != previous->number || active == nullptr ||
           model.served.group != active->served.group;
  };
  std::vector<Model> spare = take_models(*serving, is_spare);
  if (!spare.empty()) leave(std::move(spare), serving->info.index, kSettleTimeoutNs);
  free_unused();
  const std::lock_guard lock(mutex_);
  const std::vector<tenant::Version> known = all_versions(record);
  std::erase_if(serving->counts, [&](const auto& entry) {
    return std::ranges::find(known, entry.first, &tenant::Version::number) == known.end();
  });
}

Result<tenant::Removal> TenantService::remove(uint32_t id, uint64_t timeout_ns) {
  Serving* serving = find(id);
  if (serving == nullptr) return fail(Code::kNotFound, fmt::format("there is no tenant {}", id));
  const uint32_t index = serving->info.index;
  const uint64_t start_ns = clock_.now_ns();
  pipeline::TenantFigures last = pipeline::tenant_figures(pipeline_.workers(), index);
  std::vector<std::shared_ptr<tenant::Lease>> leases;
  for (const Model& model : serving->models) leases.push_back(model.served.lease);
  std::vector<Model> models = take_models(*serving, [](const Model&) { return true; });
  erase(id);
  leave(std::move(models), index, timeout_ns);

  tenant::Removal removal;
  for (const auto& lease : leases) removal.in_flight += lease->num_in_flight();
  pipeline::TenantFigures now = pipeline::tenant_figures(pipeline_.workers(), index);
  now -= last;
  removal.answered = now.responses;
  removal.refused = now.total_statuses();
  removal.waited_ns = clock_.now_ns() - start_ns;
  if (removal.in_flight > 0)
    log::warning("tenant {} is removed; {} of its requests have not ended after {} ms", id,
                 removal.in_flight, removal.waited_ns / 1'000'000);
  return removal;
}

std::vector<TenantService::Model> TenantService::take_models(
    Serving& serving, const std::function<bool(const Model&)>& which) {
  const std::lock_guard lock(mutex_);
  std::vector<Model> taken;
  for (const Model& model : serving.models)
    if (which(model)) taken.push_back(model);
  std::erase_if(serving.models, [&](const Model& model) {
    return std::ranges::any_of(
        taken, [&](const Model& t) { return t.served.lease == model.served.lease; });
  });
  return taken;
}

// Publishes a snapshot without the models, waits until their slots are unused, and frees them.
// After timeout_ns, or if cancelled, the slots stay in use for now. REQUIRES: the models are not in
// tenants_.
void TenantService::leave(std::vector<Model> models, uint32_t index, uint64_t timeout_ns) {
  std::vector<Leaving> leaving;
  {
    const std::lock_guard lock(mutex_);
    for (Model& model : models) leaving.push_back({std::move(model), generation_ + 1, index});
    leaving_.insert(leaving_.end(), leaving.begin(), leaving.end());
  }
  publish();
  const tenant::SnapshotCell& cell = pipeline_.shared().tenants;
  wait_until(
      [&] {
        return std::ranges::all_of(leaving, [&](const Leaving& l) { return l.is_unused(cell); });
      },
      timeout_ns);
  free_unused();
}

void TenantService::wait_for_all_left() {
  const tenant::SnapshotCell& cell = pipeline_.shared().tenants;
  wait_until(
      [&] {
        return std::ranges::all_of(leaving_, [&](const Leaving& l) { return l.is_unused(cell); });
      },
      kNoTimeout);
  free_unused();
}

// Returns false if the time passed, or if cancelled first.
bool TenantService::wait_until(const std::function<bool()>& done, uint64_t timeout_ns) {
  const uint64_t start_ns = clock_.now_ns();
  while (!done()) {
    pipeline_.local().collect();
    if (cancelled_.load() || clock_.now_ns() - start_ns >= timeout_ns) return false;
    std::this_thread::sleep_for(kPollPeriod);
  }
  const std::lock_guard lock(mutex_);
  pipeline_.shared().tenants.reclaim();
  return true;
}

void TenantService::free_unused() {
  pipeline_.local().collect();
  const tenant::SnapshotCell& cell = pipeline_.shared().tenants;
  std::vector<Leaving> unused;
  {
    const std::lock_guard lock(mutex_);
    const auto first = std::stable_partition(leaving_.begin(), leaving_.end(),
                                             [&](const Leaving& l) { return !l.is_unused(cell); });
    unused.assign(std::make_move_iterator(first), std::make_move_iterator(leaving_.end()));
    leaving_.erase(first, leaving_.end());
  }
  for (const Leaving& leaving : unused) unload(leaving.model);
}

bool TenantService::has_previous(uint16_t group) const {
  return std::ranges::any_of(tenants_, [&](const Serving& serving) {
    return std::ranges::any_of(serving.models, [&](const Model& model) {
      return model.served.group == group && !serving.serves(model.served.version);
    });
  });
}

// Frees the loaded version that has been replaced for the longest time, in a group or in all.
// Returns false if there is none, or if its requests do not end.
bool TenantService::free_previous(std::optional<uint16_t> group) {
  Serving* oldest = nullptr;
  const Model* found = nullptr;
  for (Serving& serving : tenants_)
    for (const Model& model : serving.models) {
      if (serving.serves(model.served.version) || (group && model.served.group != *group)) continue;
      if (oldest != nullptr &&
          oldest->info.record.installed_unix_ns <= serving.info.record.installed_unix_ns)
        continue;
      oldest = &serving;
      found = &model;
    }
  if (found == nullptr) return false;
  log::info("version {} of tenant {} is unloaded: another model needs its memory",
            found->served.version, oldest->info.record.name);
  const std::shared_ptr<tenant::Lease> lease = found->served.lease;
  leave(take_models(*oldest, [&](const Model& model) { return model.served.lease == lease; }),
        oldest->info.index, kSettleTimeoutNs);
  return std::ranges::none_of(
      leaving_, [&](const Leaving& leaving) { return leaving.model.served.lease == lease; });
}

std::vector<tenant::VersionFigures> TenantService::version_figures(uint32_t id) const {
  const std::lock_guard lock(mutex_);
  std::vector<tenant::VersionFigures> all;
  const Serving* serving = find(id);
  if (serving == nullptr) return all;
  for (const auto& [version, counts] : serving->counts) {
    const telemetry::VersionCounts::Sum sum = counts->sum();
    tenant::VersionFigures& figures = all.emplace_back();
    figures.number = version;
    figures.answered = sum.answered;
    figures.errors = sum.errors;
    figures.refused = sum.refused;
    figures.p50_ns = LatencyBuckets::percentile(sum.latency, 50);
    figures.p99_ns = LatencyBuckets::percentile(sum.latency, 99);
    if (const Model* model = serving->find(version)) {
      figures.is_loaded = true;
      figures.in_flight = model->served.lease->num_in_flight();
    }
  }
  return all;
}

}  // namespace itif::serving
