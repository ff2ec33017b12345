#include "serving/tenant_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "pipeline/lcores.h"

namespace itif::serving {
namespace {

constexpr std::chrono::microseconds kPollPeriod{200};

// Counts the executors' CPUs: those named, else those that the workers leave free.
size_t count_executor_cpus(const std::vector<unsigned>& named, size_t num_workers) {
  if (!named.empty()) return named.size();
  const size_t all = pipeline::usable_cpus().size();
  return all - std::min(all, num_workers);
}

}  // namespace

TenantService::TenantService(pipeline::Pipeline& pipeline, device::Device& device,
                             const Clock& clock, const config::Config& config,
                             std::vector<unsigned> executor_cpus, MakeGroup make_group)
    : pipeline_(pipeline),
      device_(device),
      clock_(clock),
      make_group_(std::move(make_group)),
      default_planner_(config.batching.planner),
      profile_dir_(config.control.state_dir + "/profiles"),
      overlap_(config.batching.overlap),
      busy_(config.data_plane.polling == "busy"),
      num_executor_cpus_(count_executor_cpus(executor_cpus, pipeline.workers().size())),
      stages_(pipeline::GroupTable::kMaxGroups),
      layouts_(pipeline::GroupTable::kMaxGroups) {
  const config::Batching& batching = config.batching;
  group_options_.max_tokens = batching.max_tokens;
  group_options_.max_requests = batching.max_requests;
  group_options_.max_tenants = batching.max_tenants;
  group_options_.max_beams = batching.max_beams;
  group_options_.max_cache_bytes = batching.kv_cache_bytes;
  group_options_.fusion_mode =
      backbone::parse_fusion_mode(batching.fidelity).value();  // config has checked
  stage_options_.executor.queue.max_requests = batching.queue_requests;
  stage_options_.executor.queue.max_tenant_requests = std::max(1u, batching.queue_requests / 2);
  stage_options_.executor.queue.max_slots = batching.max_tenants;
  stage_options_.executor.limits.max_requests = batching.max_requests;
  stage_options_.executor.scheduler = batching.scheduler;
  stage_options_.executor.max_wait_ns = batching.max_wait_ns;
  stage_options_.idle.max_sleep_ns = 100'000'000;  // the doorbell wakes it earlier
  stage_options_.cpus = std::move(executor_cpus);
}

TenantService::~TenantService() {
  for (uint16_t i = 0; i < stages_.size(); ++i) pipeline_.shared().groups.set(i, nullptr);
}

TenantService::Serving* TenantService::find(uint32_t id) {
  for (Serving& serving : tenants_)
    if (serving.entry.settings.id == id) return &serving;
  return nullptr;
}

// Takes indices round-robin, so that an index is reused as late as possible.
Result<uint32_t> TenantService::free_index() {
  for (uint32_t tried = 0; tried < tenant::kMaxTenants; ++tried) {
    const uint32_t index = next_index_;
    next_index_ = (next_index_ + 1) % tenant::kMaxTenants;
    if (std::none_of(tenants_.begin(), tenants_.end(),
                     [&](const Serving& s) { return s.entry.index == index; }))
      return index;
  }
  return fail(Code::kResourceExhausted,
              fmt::format("there are {} tenants already: remove one first", tenant::kMaxTenants));
}

// Publishes a snapshot without the tenant, waits until its slot is unused, and frees the slot.
// REQUIRES: it is not in tenants_.
void TenantService::leave(Serving serving) {
  {
    const std::lock_guard lock(mutex_);
    leaving_.push_back(serving);
  }
  if (!wait_unused(*serving.lease, publish())) return;
  unload(serving);
  const std::lock_guard lock(mutex_);
  std::erase_if(leaving_, [&](const Serving& s) { return s.lease == serving.lease; });
}

// Publishes a snapshot of tenants_ and returns its generation.
uint64_t TenantService::publish() {
  const std::lock_guard lock(mutex_);
  std::vector<tenant::Tenant> tenants;
  for (const Serving& serving : tenants_) {
    const TenantSettings& settings = serving.entry.settings;
    tenant::Tenant& t = tenants.emplace_back();
    t.id = settings.id;
    t.index = serving.entry.index;
    t.name = settings.name;
    const bool waits_for_model = !serving.entry.loaded && settings.state == tenant::State::kServing;
    t.state = waits_for_model ? tenant::State::kNotLoaded : settings.state;
    t.auth = settings.auth;
    t.key = settings.key;
    t.previous_key = settings.previous_key;
    t.has_previous_key = settings.has_previous_key;
    t.group = serving.group;
    t.slot = serving.slot;
    t.max_payload_bytes = serving.max_payload_bytes;
    t.max_tokens = serving.entry.max_tokens;
    t.payload_kinds = serving.payload_kinds;
    t.slo_ns = settings.slo_ns;
    t.weight = settings.weight;
    t.quota_rps = settings.quota_rps;
    t.lease = serving.lease;
  }
  pipeline_.shared().tenants.publish(
      std::make_unique<tenant::Snapshot>(std::move(tenants), ++generation_, draining_));
  return generation_;
}

// Waits until no worker can start another request under the lease and its requests are answered.
// Returns false if cancelled first.
bool TenantService::wait_unused(const tenant::Lease& lease, uint64_t generation) {
  while (!pipeline_.shared().tenants.readers_passed(generation) ||
         lease.in_flight.load(std::memory_order_acquire) > 0) {
    if (cancelled_.load()) return false;
    std::this_thread::sleep_for(kPollPeriod);
  }
  const std::lock_guard lock(mutex_);
  pipeline_.shared().tenants.reclaim();
  return true;
}

void TenantService::give_index(Serving& serving, uint32_t index) {
  serving.entry.index = index;
  serving.entry.before = pipeline::tenant_figures(pipeline_.workers(), index);
  pipeline_.shared().quota.reset(index);
}

void TenantService::expect(const std::vector<TenantSettings>& all) {
  for (const TenantSettings& settings : all) {
    Serving* known = find(settings.id);
    CHECK(known == nullptr || !known->entry.loaded);
    if (known != nullptr) {
      const std::lock_guard lock(mutex_);
      known->entry.settings = settings;
      continue;
    }
    const auto index = free_index();
    if (!index) break;  // admit() reports the error
    Serving serving;
    serving.entry.settings = settings;
    give_index(serving, *index);
    const std::lock_guard lock(mutex_);
    tenants_.push_back(std::move(serving));
  }
  publish();
}

Result<TenantInfo> TenantService::admit(const TenantSettings& settings,
                                        const model::Progress& progress) {
  Serving* known = find(settings.id);
  if (known != nullptr && known->entry.loaded)
    return fail(Code::kAlreadyExists,
                fmt::format("tenant {} is already being served", settings.id));
  uint32_t index = 0;
  if (known == nullptr) {
    ITIF_ASSIGN(index, free_index());
  }
  ITIF_ASSIGN(Serving serving, load(settings, progress));
  if (known != nullptr) {
    serving.entry.index = known->entry.index;
    serving.entry.before = known->entry.before;
  } else {
    give_index(serving, index);
  }
  const TenantInfo entry = serving.entry;
  {
    const std::lock_guard lock(mutex_);
    if (known != nullptr)
      *known = std::move(serving);
    else
      tenants_.push_back(std::move(serving));
  }
  publish();
  return entry;
}

Result<TenantInfo> TenantService::update(const TenantSettings& settings, bool reload,
                                         const model::Progress& progress) {
  Serving* serving = find(settings.id);
  if (serving == nullptr || !serving->entry.loaded)
    return fail(Code::kNotFound, fmt::format("tenant {} is not being served", settings.id));
  if (!reload) {
    {
      const std::lock_guard lock(mutex_);
      serving->entry.settings = settings;
    }
    publish();
    return serving->entry;
  }
  ITIF_ASSIGN(Serving fresh, load(settings, progress));
  fresh.entry.index = serving->entry.index;
  fresh.entry.before = serving->entry.before;
  const TenantInfo entry = fresh.entry;
  {
    const std::lock_guard lock(mutex_);
    std::swap(*serving, fresh);
  }
  leave(std::move(fresh));
  return entry;
}

Status TenantService::remove(uint32_t id) {
  const Serving* serving = find(id);
  if (serving == nullptr) return fail(Code::kNotFound, fmt::format("there is no tenant {}", id));
  Serving gone = *serving;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(tenants_, [&](const Serving& s) { return s.entry.settings.id == id; });
  }
  if (gone.entry.loaded)
    leave(std::move(gone));
  else
    publish();
  return {};
}

uint64_t TenantService::in_flight() const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const auto* list : {&tenants_, &leaving_})
    for (const Serving& serving : *list)
      sum += serving.lease->in_flight.load(std::memory_order_acquire);
  return sum;
}

uint64_t TenantService::drain(uint64_t timeout_ns) {
  const bool was_cancelled = cancelled_.load();
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  const uint64_t generation = publish();
  const uint64_t give_up_ns = clock_.now_ns() + timeout_ns;
  while ((!pipeline_.shared().tenants.readers_passed(generation) || in_flight() > 0) &&
         clock_.now_ns() < give_up_ns && cancelled_.load() == was_cancelled)
    std::this_thread::sleep_for(kPollPeriod);
  return in_flight();
}

void TenantService::resume_from_drain() {
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_.load()) return;
    draining_ = false;
  }
  publish();
}

bool TenantService::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

std::vector<TenantInfo> TenantService::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<TenantInfo> entries;
  for (const Serving& serving : tenants_) {
    entries.push_back(serving.entry);
    entries.back().in_flight = serving.lease->in_flight.load(std::memory_order_relaxed);
  }
  return entries;
}

size_t TenantService::num_loaded() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(tenants_.begin(), tenants_.end(),
                                           [](const Serving& s) { return s.entry.loaded; }));
}

}  // namespace itif::serving
