#include "serving/tenant_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "device/threads.h"
#include "pipeline/lcores.h"
#include "tenant/version_changes.h"

namespace itif::serving {
namespace {

// Counts the executors' CPUs: those named, else those that the workers leave free.
size_t count_executor_cpus(const std::vector<unsigned>& named, size_t num_workers) {
  if (!named.empty()) return named.size();
  const size_t all = pipeline::usable_cpus().size();
  return all - std::min(all, num_workers);
}

// Models that load at the same time: more would only take more memory meanwhile.
constexpr size_t kMostLoaders = 4;

}  // namespace

TenantService::TenantService(pipeline::Pipeline& pipeline, DeviceTable& devices, const Clock& clock,
                             const config::Config& config, std::vector<unsigned> executor_cpus,
                             MakeGroup make_group)
    : pipeline_(pipeline),
      devices_(devices),
      clock_(clock),
      make_group_(std::move(make_group)),
      default_planner_(config.batching.planner),
      profile_dir_(config.control.state_dir + "/profiles"),
      overlap_(config.batching.overlap),
      busy_(config.data_plane.polling == "busy"),
      num_executor_cpus_(count_executor_cpus(executor_cpus, pipeline.workers().size())),
      stages_(pipeline::GroupTable::kMaxGroups),
      layouts_(pipeline::GroupTable::kMaxGroups),
      num_slots_(pipeline::GroupTable::kMaxGroups),
      cpus_(executor_cpus),
      shares_(clock, {.tunes = config.device.shares == "tuned",
                      .unmet_demands = config.device.unmet_demands == "equal"
                                           ? slice::UnmetDemands::kEqual
                                           : slice::UnmetDemands::kProportional,
                      .hold_down_ns = config.device.hold_down_ns}),
      loaders_(std::min<size_t>(kMostLoaders, device::num_process_cpus()), executor_cpus,
               [this](bool busy) { yield_to_loads(busy); }) {
  const config::Batching& batching = config.batching;
  group_options_.max_tokens = batching.max_tokens;
  group_options_.max_requests = batching.max_requests;
  group_options_.max_tenants = batching.max_tenants;
  kind_options_.decoder = {.max_beams = batching.max_beams,
                           .max_cache_bytes = batching.kv_cache_bytes};
  kind_options_.encoder.fusion_mode =
      backbone::parse_fusion_mode(batching.fidelity).value();  // config has checked
  stage_options_.executor.queue.max_requests = batching.queue_requests;
  stage_options_.executor.queue.max_tenant_requests = batching.max_tenant_requests();
  stage_options_.executor.queue.max_slots = batching.max_tenants;
  stage_options_.executor.limits.max_requests = batching.max_requests;
  stage_options_.executor.scheduler = batching.scheduler;
  stage_options_.executor.max_wait_ns = batching.max_wait_ns;
  stage_options_.executor.stamps_stages = config.telemetry.stages;
  // Config has checked the names.
  stage_options_.executor.batch_control =
      sched::parse_batch_control(batching.batch_control).value();
  stage_options_.executor.generation = {
      .joining = runtime::parse_joining(batching.joining).value(),
      .cleaning = runtime::parse_cleaning(batching.cleaning).value()};
  stage_options_.idle.max_sleep_ns = 100'000'000;  // the doorbell wakes it earlier
  stage_options_.share.cpus = std::move(executor_cpus);
}

// Beside loads, a compute pool that spins raises the p99 of requests (device/host/pool_wait.h).
void TenantService::yield_to_loads(bool loads) noexcept {
  if (loads) yielding_ = &devices_.serving();
  yielding_->set_loading(loads);
}

TenantService::~TenantService() {
  for (uint16_t i = 0; i < stages_.size(); ++i) shares_.remove(i);
  for (uint16_t i = 0; i < stages_.size(); ++i) pipeline_.shared().groups.set(i, nullptr);
}

const TenantService::Serving* TenantService::find(uint32_t id) const {
  for (const Serving& serving : tenants_)
    if (serving.info.record.id == id) return &serving;
  return nullptr;
}

TenantService::Serving* TenantService::find(uint32_t id) {
  return const_cast<Serving*>(std::as_const(*this).find(id));
}

// Takes indices round-robin, so that an index is reused as late as possible.
Result<uint32_t> TenantService::free_index() {
  for (uint32_t tried = 0; tried < tenant::kMaxTenants; ++tried) {
    const uint32_t index = next_index_;
    next_index_ = (next_index_ + 1) % tenant::kMaxTenants;
    if (std::ranges::none_of(tenants_, [&](const Serving& s) { return s.info.index == index; }) &&
        std::ranges::none_of(leaving_, [&](const Leaving& l) { return l.index == index; }))
      return index;
  }
  return fail(Code::kResourceExhausted,
              fmt::format("there are {} tenants already: remove one first", tenant::kMaxTenants));
}

// Publishes a snapshot of tenants_ and returns its generation.
uint64_t TenantService::publish() {
  tell_objectives();
  const std::lock_guard lock(mutex_);
  std::vector<tenant::Tenant> tenants;
  for (const Serving& serving : tenants_) {
    const tenant::Record& record = serving.info.record;
    tenant::Tenant& t = tenants.emplace_back();
    static_cast<tenant::Identity&>(t) = record;
    static_cast<tenant::Settings&>(t) = record;
    if (!serving.info.model && record.state == tenant::State::kServing)
      t.state = tenant::State::kNotLoaded;
    t.index = serving.info.index;
    if (const Model* active = serving.active())
      static_cast<tenant::ServedModel&>(t) = active->served;
    if (const Model* canary = serving.canary()) {
      t.canary = canary->served;
      t.canary_percent = record.canary_percent;
    }
  }
  pipeline_.shared().tenants.publish(
      std::make_unique<tenant::Snapshot>(std::move(tenants), ++generation_, intake_));
  return generation_;
}

// The tightest objective of a group's tenants decides about its share, too.
void TenantService::tell_objectives() {
  std::vector<uint64_t> slo_ns(stages_.size(), 0);
  {
    const std::lock_guard lock(mutex_);
    for (const Serving& serving : tenants_) {
      const uint64_t own_ns = serving.info.record.slo_ns;
      if (own_ns == 0) continue;
      for (const Model& model : serving.models) {
        if (!serving.serves(model.served.version)) continue;
        uint64_t& tightest_ns = slo_ns[model.served.group];
        tightest_ns = tightest_ns == 0 ? own_ns : std::min(tightest_ns, own_ns);
      }
    }
  }
  for (uint16_t i = 0; i < stages_.size(); ++i) shares_.set_objective(i, slo_ns[i]);
}

void TenantService::give_index(Serving& serving, uint32_t index) {
  serving.info.index = index;
  serving.info.before = pipeline::tenant_figures(pipeline_.workers(), index);
  const auto stages = pipeline::tenant_stages(pipeline_.workers(), index);
  serving.info.stages_before = stages.sums.num_requests > 0
                                   ? std::make_shared<const pipeline::StageFigures>(stages)
                                   : nullptr;
  pipeline_.shared().quota.reset(index);
}

Status TenantService::add(const tenant::Record& record, const std::string& failure) {
  ITIF_ASSIGN(const uint32_t index, free_index());
  Serving serving;
  serving.info.record = record;
  if (!failure.empty()) {
    serving.info.condition = tenant::Condition::kFailed;
    serving.info.failure = failure;
  }
  give_index(serving, index);
  const std::lock_guard lock(mutex_);
  tenants_.push_back(std::move(serving));
  return {};
}

void TenantService::erase(uint32_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(tenants_, [&](const Serving& s) { return s.info.record.id == id; });
}

// Lists the tenant as loaded, with a model of its active version. REQUIRES: mutex_ is held.
void TenantService::set_active(Serving& serving, const Model& model) {
  serving.info.model = model.info;
  serving.info.condition = tenant::Condition::kLoaded;
  serving.info.failure.clear();
}

void TenantService::set_failure(Serving& serving, const std::string& failure) {
  const std::lock_guard lock(mutex_);
  serving.info.condition = tenant::Condition::kFailed;
  serving.info.failure = failure;
}

void TenantService::expect(const std::vector<tenant::Record>& records, const std::string& failure) {
  for (const tenant::Record& record : records) {
    Serving* known = find(record.id);
    CHECK(known == nullptr || !known->info.model);
    if (known != nullptr) {
      const std::lock_guard lock(mutex_);
      known->info.record = record;
      known->info.canary_failure.clear();
      continue;
    }
    if (const Status added = add(record, failure); !added)
      log::error("tenant '{}' (id {}) is left out: {}", record.name, record.id,
                 added.error().message);
  }
  publish();
}

Status TenantService::admit(const tenant::Record& record, const control::Progress& progress) {
  Serving* known = find(record.id);
  if (known != nullptr && known->info.model)
    return fail(Code::kAlreadyExists, fmt::format("tenant {} is already being served", record.id));
  const bool is_new = known == nullptr;
  if (is_new) {
    ITIF_TRY(add(record, ""));
    publish();
    known = find(record.id);
  }
  // A listed tenant's record is from the registry, unless control has just changed it.
  const Origin origin =
      is_new ? Origin::kNew : origin_of(known->info.record, active_version(record));
  tenant::Record admitted = record;
  auto loaded = load(admitted, active_version(record), origin, progress);
  if (!loaded && is_new) {
    erase(record.id);
    publish();
    return std::unexpected(loaded.error());
  }
  ITIF_TRY(finish_admission(std::move(admitted), std::move(loaded)));
  load_canaries({record.id}, progress);
  return {};
}

// Lets a listed tenant serve, or notes why its model is not loaded.
Status TenantService::finish_admission(tenant::Record record, Result<Model> loaded) {
  Serving* known = find(record.id);
  if (!loaded) {
    if (!cancelled_.load()) set_failure(*known, loaded.error().message);
    return std::unexpected(std::move(loaded.error()));
  }
  {
    const std::lock_guard lock(mutex_);
    known->info.record = std::move(record);
    known->info.canary_failure.clear();
    note_load(known->info.record, *loaded);
    set_active(*known, *loaded);
    known->models.push_back(std::move(*loaded));
  }
  publish();
  return {};
}

void TenantService::admit_listed(const std::vector<tenant::Record>& records,
                                 const OnAdmitted& done) {
  std::vector<Load> loads;
  for (const tenant::Record& record : records)
    loads.push_back(load_of(record, active_version(record), {}));
  std::vector<uint32_t> with_canary;
  is_restoring_ = true;
  load_all(std::move(loads), {}, [&](size_t i, Result<Model> loaded) {
    tenant::Record record = records[i];
    if (loaded) loaded = renumber(record, active_version(record), *std::move(loaded), {});
    const Status admitted = finish_admission(std::move(record), std::move(loaded));
    const bool has_canary = find_version(records[i], tenant::VersionState::kCanary) != nullptr;
    if (admitted && has_canary)
      with_canary.push_back(records[i].id);
    else
      done(records[i], admitted);
  });
  load_canaries(with_canary, {});
  is_restoring_ = false;
  for (const uint32_t id : with_canary) done(find(id)->info.record, {});
}

std::vector<tenant::Info> TenantService::tenants() const {
  std::vector<tenant::Info> infos;
  {
    const std::lock_guard lock(mutex_);
    infos.reserve(tenants_.size());
    for (const Serving& serving : tenants_) infos.push_back(serving.info);
  }
  std::ranges::sort(infos, {}, [](const tenant::Info& info) { return info.record.id; });
  return infos;
}

std::optional<tenant::Info> TenantService::tenant(const tenant::Ref& ref) const {
  const auto* id = std::get_if<uint32_t>(&ref);
  const auto* name = std::get_if<std::string>(&ref);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(tenants_, [&](const Serving& s) {
    return id ? s.info.record.id == *id : s.info.record.name == *name;
  });
  return found == tenants_.end() ? std::nullopt : std::optional<tenant::Info>(found->info);
}

uint64_t TenantService::in_flight() const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const Serving& serving : tenants_) sum += serving.in_flight();
  for (const Leaving& leaving : leaving_) sum += leaving.model.served.lease->num_in_flight();
  return sum;
}

uint64_t TenantService::drain(uint64_t timeout_ns) {
  return stop_accepting(tenant::Intake::kRefuse, timeout_ns);
}

uint64_t TenantService::stop_accepting(tenant::Intake intake, uint64_t timeout_ns) {
  const bool was_cancelled = cancelled_.load();
  {
    const std::lock_guard lock(mutex_);
    intake_ = intake;
  }
  const uint64_t generation = publish();
  const uint64_t give_up_ns = clock_.now_ns() + timeout_ns;
  const auto is_still_wanted = [&] {
    const std::lock_guard lock(mutex_);
    return intake_ == intake && cancelled_.load() == was_cancelled;
  };
  while ((!pipeline_.shared().tenants.readers_passed(generation) || !pipeline_.has_intake(intake) ||
          in_flight() > 0) &&
         clock_.now_ns() < give_up_ns && is_still_wanted())
    std::this_thread::sleep_for(kPollPeriod);
  return in_flight();
}

void TenantService::resume_from_drain() {
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_.load()) return;
    intake_ = tenant::Intake::kAccept;
  }
  publish();
}

bool TenantService::draining() const {
  const std::lock_guard lock(mutex_);
  return intake_ == tenant::Intake::kRefuse;
}

std::vector<TenantInfo> TenantService::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<TenantInfo> entries;
  for (const Serving& serving : tenants_) {
    entries.push_back(serving.info);
    entries.back().in_flight = serving.in_flight();
    entries.back().canary_elsewhere = serving.canary_elsewhere();
  }
  return entries;
}

size_t TenantService::num_loaded() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(
      tenants_.begin(), tenants_.end(), [](const Serving& s) { return s.info.model.has_value(); }));
}

}  // namespace itif::serving
