#include "pipeline/directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "model/model_dir.h"

namespace itif::pipeline {
namespace {

constexpr std::chrono::microseconds kPollPeriod{200};
// Of text; truncation makes long ones legal, so this only bounds what one request can hold.
constexpr uint32_t kTextBytesPerToken = 32;

uint16_t kind_bit(wire::PayloadKind kind) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(kind));
}

std::string describe_head(const model::HeadSpec& head) {
  std::string text = model::head_kind_name(head.kind);
  if (!head.labels.empty()) text += fmt::format(" ({} labels)", head.labels.size());
  return text;
}

}  // namespace

Directory::Directory(Pipeline& pipeline, device::Device& device, const Clock& clock,
                     const config::Config& config, std::vector<unsigned> executor_cpus)
    : pipeline_(pipeline), device_(device), clock_(clock), stages_(GroupTable::kMaxGroups) {
  const config::Batching& batching = config.batching;
  group_options_.max_tokens = batching.max_tokens;
  group_options_.max_requests = batching.max_requests;
  group_options_.max_tenants = batching.max_tenants;
  stage_options_.executor.queue.max_requests = batching.queue_requests;
  stage_options_.executor.queue.max_tenant_requests = std::max(1u, batching.queue_requests / 2);
  stage_options_.executor.queue.max_slots = batching.max_tenants;
  stage_options_.executor.limits.max_requests = batching.max_requests;
  stage_options_.executor.scheduler = batching.scheduler;
  stage_options_.executor.max_wait_ns = batching.max_wait_ns;
  stage_options_.idle.busy = config.data_plane.polling == "busy";
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

Result<uint16_t> Directory::find_or_make_group(const std::string& name,
                                               const model::BackboneSpec& spec) {
  int unused = -1;
  for (uint16_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i]) {
      if (unused < 0) unused = i;
      continue;
    }
    // A named group is the admin's choice: whether the model fits is for Group::admit to say.
    if (name.empty() ? model::check_fits(stages_[i]->group().spec(), spec).has_value() &&
                           stages_[i]->group().num_tenants() < group_options_.max_tenants
                     : stages_[i]->name() == name)
      return i;
  }
  if (unused < 0) {
    return fail(Code::kResourceExhausted,
                fmt::format("there are {} groups already", GroupTable::kMaxGroups));
  }
  std::string made_name = name.empty() ? model::signature(spec) : name;
  for (int suffix = 2; std::any_of(stages_.begin(), stages_.end(),
                                   [&](const auto& s) { return s && s->name() == made_name; });
       ++suffix)
    made_name = fmt::format("{}.{}", model::signature(spec), suffix);

  runtime::GroupOptions options = group_options_;
  options.max_tokens = std::max(options.max_tokens, spec.max_positions);
  GroupStageOptions stage_options = stage_options_;
  stage_options.executor.limits.max_tokens = options.max_tokens;
  ITIF_ASSIGN(auto group, runtime::Group::create(device_, spec, options));
  const std::vector<RequestRing*> returns = pipeline_.return_rings();
  ITIF_ASSIGN(auto stage, GroupStage::create(made_name, std::move(group), device_, clock_, returns,
                                             stage_options));
  stage->start();
  const auto number = static_cast<uint16_t>(unused);
  pipeline_.shared().groups.set(number, stage.get());
  log::info("group {} serves {}", made_name, model::describe(spec));
  const std::lock_guard lock(mutex_);
  stages_[number] = std::move(stage);
  return number;
}

void Directory::drop_group_if_empty(uint16_t group) {
  if (!stages_[group] || stages_[group]->group().num_tenants() > 0) return;
  pipeline_.shared().groups.set(group, nullptr);
  std::unique_ptr<GroupStage> last;
  {
    const std::lock_guard lock(mutex_);
    last = std::move(stages_[group]);
  }
  last->stop();
  log::info("group {} has no tenants left and is gone", last->name());
}

Result<Directory::Serving> Directory::load(const TenantSettings& settings,
                                           const model::Progress& progress) {
  ITIF_ASSIGN(const model::BackboneSpec spec, model::read_backbone_spec(settings.model_dir));
  ITIF_ASSIGN(const uint16_t number, find_or_make_group(settings.group, spec));
  runtime::Group& group = stages_[number]->group();
  auto slot = group.admit(settings.model_dir, progress);
  if (!slot) {
    drop_group_if_empty(number);
    return std::unexpected(slot.error());
  }
  const model::TenantModel& model = *group.model(*slot);
  Serving serving;
  serving.group = number;
  serving.slot = *slot;
  serving.payload_kinds =
      kind_bit(wire::PayloadKind::kTokensU16) | kind_bit(wire::PayloadKind::kTokensU32);
  serving.max_payload_bytes = model.max_tokens * 4;
  if (model.tokenizer) {
    serving.payload_kinds |= kind_bit(wire::PayloadKind::kText);
    serving.max_payload_bytes = model.max_tokens * kTextBytesPerToken;
  }
  TenantEntry& entry = serving.entry;
  entry.settings = settings;
  entry.loaded = true;
  entry.group = stages_[number]->name();
  entry.backbone = model::describe(model.spec);
  entry.head = describe_head(model.head.spec);
  entry.labels = model.head.spec.labels;
  entry.default_result = runtime::default_result_kind(model.head.spec);
  entry.max_tokens = model.max_tokens;
  entry.weight_bytes = model.weight_bytes;
  return serving;
}

void Directory::unload(const Serving& serving) {
  stages_[serving.group]->group().release(serving.slot);
  drop_group_if_empty(serving.group);
}

void Directory::publish() {
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
}

// Until no worker can start another request under the lease, and those it has are answered.
void Directory::wait_unused(const tenant::Lease& lease) {
  while (!pipeline_.shared().tenants.readers_passed(generation_) ||
         lease.in_flight.load(std::memory_order_acquire) > 0)
    std::this_thread::sleep_for(kPollPeriod);
  pipeline_.shared().tenants.reclaim();
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
  publish();
  wait_unused(*fresh.lease);
  unload(fresh);
  return entry;
}

Status Directory::remove(uint32_t id) {
  const Serving* serving = find(id);
  if (serving == nullptr) return fail(Code::kNotFound, fmt::format("there is no tenant {}", id));
  const Serving gone = *serving;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(tenants_, [&](const Serving& s) { return s.entry.settings.id == id; });
  }
  publish();
  if (!gone.entry.loaded) return {};
  wait_unused(*gone.lease);
  unload(gone);
  return {};
}

uint64_t Directory::in_flight() const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const Serving& serving : tenants_)
    sum += serving.lease->in_flight.load(std::memory_order_acquire);
  return sum;
}

uint64_t Directory::drain(uint64_t timeout_ns) {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  publish();
  const uint64_t give_up_ns = clock_.now_ns() + timeout_ns;
  while ((!pipeline_.shared().tenants.readers_passed(generation_) || in_flight() > 0) &&
         clock_.now_ns() < give_up_ns)
    std::this_thread::sleep_for(kPollPeriod);
  return in_flight();
}

void Directory::resume_from_drain() {
  {
    const std::lock_guard lock(mutex_);
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

std::vector<GroupEntry> Directory::groups() const {
  const std::lock_guard lock(mutex_);
  std::vector<GroupEntry> entries;
  for (size_t number = 0; number < stages_.size(); ++number) {
    if (!stages_[number]) continue;
    const GroupStage& stage = *stages_[number];
    const runtime::Group& group = stage.group();
    const telemetry::ExecutorCounters& c = stage.counters();
    GroupEntry& entry = entries.emplace_back();
    entry.name = stage.name();
    entry.backbone = model::describe(group.spec());
    entry.max_tenants = group.options().max_tenants;
    entry.weight_bytes = group.weight_bytes();
    entry.workspace_bytes = group.workspace_bytes();
    entry.waiting = stage.num_waiting();
    entry.executing = stage.num_executing();
    entry.batches = c.batches.read();
    entry.requests = c.requests.read();
    entry.tokens = c.tokens.read();
    entry.tenants = c.tenants.read();
    entry.refused = c.refused.read();
    entry.busy_ns = c.busy_ns.read();
    entry.device_failed = c.device_errors.read() > 0;
    for (const Serving& serving : tenants_)
      if (serving.entry.loaded && serving.group == number)
        entry.tenant_names.push_back(serving.entry.settings.name);
  }
  return entries;
}

}  // namespace itif::pipeline
