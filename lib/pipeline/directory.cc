#include "pipeline/directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "pipeline/lcores.h"

namespace itif::pipeline {
namespace {

constexpr std::chrono::microseconds kPollPeriod{200};

// Where nothing says which CPUs are the executors', they have those that workers leave.
size_t count_executor_cpus(const std::vector<unsigned>& named, size_t num_workers) {
  if (!named.empty()) return named.size();
  const size_t all = usable_cpus().size();
  return all - std::min(all, num_workers);
}

}  // namespace

Directory::Directory(Pipeline& pipeline, device::Device& device, const Clock& clock,
                     const config::Config& config, std::vector<unsigned> executor_cpus,
                     MakeGroup make_group)
    : pipeline_(pipeline),
      device_(device),
      clock_(clock),
      make_group_(std::move(make_group)),
      default_planner_(config.batching.planner),
      profile_dir_(config.control.state_dir + "/profiles"),
      overlap_(config.batching.overlap),
      busy_(config.data_plane.polling == "busy"),
      num_executor_cpus_(count_executor_cpus(executor_cpus, pipeline.workers().size())),
      stages_(GroupTable::kMaxGroups),
      layouts_(GroupTable::kMaxGroups) {
  const config::Batching& batching = config.batching;
  group_options_.max_tokens = batching.max_tokens;
  group_options_.max_requests = batching.max_requests;
  group_options_.max_tenants = batching.max_tenants;
  group_options_.max_beams = batching.max_beams;
  group_options_.max_cache_bytes = batching.kv_cache_bytes;
  group_options_.fidelity =
      backbone::parse_fidelity(batching.fidelity).value();  // config has checked
  stage_options_.executor.queue.max_requests = batching.queue_requests;
  stage_options_.executor.queue.max_tenant_requests = std::max(1u, batching.queue_requests / 2);
  stage_options_.executor.queue.max_slots = batching.max_tenants;
  stage_options_.executor.limits.max_requests = batching.max_requests;
  stage_options_.executor.scheduler = batching.scheduler;
  stage_options_.executor.max_wait_ns = batching.max_wait_ns;
  stage_options_.idle.max_sleep_ns = 100'000'000;  // it is woken by its doorbell
  stage_options_.cpus = std::move(executor_cpus);
}

Directory::~Directory() {
  for (uint16_t i = 0; i < stages_.size(); ++i) pipeline_.shared().groups.set(i, nullptr);
}

Directory::Serving* Directory::find(uint32_t id) {
  for (Serving& serving : tenants_)
    if (serving.entry.settings.id == id) return &serving;
  return nullptr;
}

// Round robin, so that an index rests before it is used again.
Result<uint32_t> Directory::free_index() {
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

// Frees a tenant's slot when nobody needs it any more. REQUIRES: it is not in tenants_.
void Directory::leave(Serving serving) {
  {
    const std::lock_guard lock(mutex_);
    leaving_.push_back(serving);
  }
  if (!wait_unused(*serving.lease, publish())) return;
  unload(serving);
  const std::lock_guard lock(mutex_);
  std::erase_if(leaving_, [&](const Serving& s) { return s.lease == serving.lease; });
}

// Returns the snapshot's generation.
uint64_t Directory::publish() {
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

// Until no worker can start another request under the lease, and those it has are answered. False:
// cancelled before.
bool Directory::wait_unused(const tenant::Lease& lease, uint64_t generation) {
  while (!pipeline_.shared().tenants.readers_passed(generation) ||
         lease.in_flight.load(std::memory_order_acquire) > 0) {
    if (cancelled_.load()) return false;
    std::this_thread::sleep_for(kPollPeriod);
  }
  const std::lock_guard lock(mutex_);
  pipeline_.shared().tenants.reclaim();
  return true;
}

void Directory::give_index(Serving& serving, uint32_t index) {
  serving.entry.index = index;
  serving.entry.before = tenant_figures(pipeline_.workers(), index);
  pipeline_.shared().quota.reset(index);
}

void Directory::expect(const std::vector<TenantSettings>& all) {
  for (const TenantSettings& settings : all) {
    Serving* known = find(settings.id);
    CHECK(known == nullptr || !known->entry.loaded);
    if (known != nullptr) {
      const std::lock_guard lock(mutex_);
      known->entry.settings = settings;
      continue;
    }
    const auto index = free_index();
    if (!index) break;  // admit() will say so
    Serving serving;
    serving.entry.settings = settings;
    give_index(serving, *index);
    const std::lock_guard lock(mutex_);
    tenants_.push_back(std::move(serving));
  }
  publish();
}

Result<TenantEntry> Directory::admit(const TenantSettings& settings,
                                     const model::Progress& progress) {
  Serving* known = find(settings.id);
  if (known != nullptr && known->entry.loaded)
    return fail(Code::kAlreadyExists, fmt::format("tenant {} is being served", settings.id));
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
  const TenantEntry entry = serving.entry;
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

Result<TenantEntry> Directory::update(const TenantSettings& settings, bool reload,
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
  const TenantEntry entry = fresh.entry;
  {
    const std::lock_guard lock(mutex_);
    std::swap(*serving, fresh);
  }
  leave(std::move(fresh));
  return entry;
}

Status Directory::remove(uint32_t id) {
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

uint64_t Directory::in_flight() const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const auto* list : {&tenants_, &leaving_})
    for (const Serving& serving : *list)
      sum += serving.lease->in_flight.load(std::memory_order_acquire);
  return sum;
}

uint64_t Directory::drain(uint64_t timeout_ns) {
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

void Directory::resume_from_drain() {
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_.load()) return;
    draining_ = false;
  }
  publish();
}

bool Directory::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

std::vector<TenantEntry> Directory::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<TenantEntry> entries;
  for (const Serving& serving : tenants_) {
    entries.push_back(serving.entry);
    entries.back().in_flight = serving.lease->in_flight.load(std::memory_order_relaxed);
  }
  return entries;
}

size_t Directory::num_loaded() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(tenants_.begin(), tenants_.end(),
                                           [](const Serving& s) { return s.entry.loaded; }));
}

}  // namespace itif::pipeline
