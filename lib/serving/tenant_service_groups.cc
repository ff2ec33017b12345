// The tenant service's groups: creates and removes them, changes their settings.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "device/threads.h"
#include "pipeline/lcores.h"
#include "serving/tenant_service.h"

namespace itif::serving {
namespace {

constexpr const char* kFirstPlanner = "packed";  // an executor's initial planner

// Batch sizes, in tokens, past which throughput hardly grows: a CPU's GEMMs are large enough at
// some hundreds of tokens per tenant, a GPU's at thousands.
constexpr uint32_t kHostBatchTokens = 1024, kGpuBatchTokens = 8192;
// A GPU with little memory has smaller batches, down to this.
constexpr uint32_t kMinGpuBatchTokens = 1024;
// The workspace of a group takes at most this part of a GPU's memory, unless max_tokens is set. The
// workspaces of four groups then leave half of it to models and K/V caches.
constexpr uint64_t kWorkspaceShare = 8;

}  // namespace

// Returns true if the group should prepare a batch while another computes. On the host this needs a
// CPU that the device's threads do not use; otherwise the extra thread costs as much as it gains
// (`itif-bench overlap`).
bool TenantService::overlaps(runtime::Group& group, const device::Device& device) const {
  if (overlap_ != "auto") return overlap_ == "on";
  if (device.info().kind != "host") return true;
  return num_executor_cpus_ > device.info().num_threads && group.overlaps_on_host();
}

Result<uint16_t> TenantService::start_group(const std::string& name,
                                            const model::BackboneSpec& spec,
                                            const control::Progress& progress) {
  std::string made_name = name.empty() ? model::signature(spec) : name;
  for (int suffix = 2; std::any_of(stages_.begin(), stages_.end(),
                                   [&](const auto& s) { return s && s->name() == made_name; });
       ++suffix)
    made_name = fmt::format("{}.{}", model::signature(spec), suffix);
  ITIF_ASSIGN(const uint16_t number,
              make_group(made_name, spec, devices_.serving(), /*yields=*/true));
  prepare_planner(number, progress);  // may measure the device for seconds
  shares_.begin(number);
  return number;
}

// Makes a group without a thread. If its largest batch is not configured, it is the largest power
// of two whose workspace takes at most a part of the GPU's memory.
Result<std::unique_ptr<runtime::Group>> TenantService::make_workspace(
    const std::string& name, const model::BackboneSpec& spec, device::Device& device) {
  const bool is_gpu = device.info().num_threads == 0;
  runtime::GroupOptions options = group_options_;
  DeviceMemory& memory = memory_[&device];
  options.load_memory = &memory.loads;
  options.weight_pool = &memory.weights;
  uint32_t tokens = options.max_tokens;
  if (tokens == 0) tokens = is_gpu ? kGpuBatchTokens : kHostBatchTokens;
  const bool may_shrink = is_gpu && group_options_.max_tokens == 0;
  const size_t memory_bytes = device.info().memory_bytes;  // 0: not known
  for (;; tokens /= 2) {
    options.max_tokens = std::max(tokens, spec.max_tokens());
    auto group = make_group_(device, spec, options, kind_options_);
    // Smaller batches would have the same workspace.
    if (!may_shrink || tokens <= std::max(kMinGpuBatchTokens, spec.max_tokens())) return group;
    if (!group && group.error().code != Code::kResourceExhausted) return group;
    const uint64_t bytes = group ? (*group)->workspace_bytes() - (*group)->cache_bytes() : 0;
    if (group && (memory_bytes == 0 || bytes <= memory_bytes / kWorkspaceShare)) return group;
    log::info("group {}: batches of {} tokens need {} of the device's {}, so they will be smaller",
              name, options.max_tokens, group ? format_bytes(bytes) : "more than is free",
              format_bytes(memory_bytes));
  }
}

Result<uint16_t> TenantService::make_group(const std::string& name, const model::BackboneSpec& spec,
                                           device::Device& device, bool yields) {
  const auto unused = std::find(stages_.begin(), stages_.end(), nullptr);
  if (unused == stages_.end()) {
    return fail(Code::kResourceExhausted,
                fmt::format("there are {} groups already: remove all tenants of one first",
                            pipeline::GroupTable::kMaxGroups));
  }
  Result<std::unique_ptr<runtime::Group>> group;
  // Makes the workspace's pages. The stage starts threads, so it is made on this thread.
  loaders_.run([&] { group = make_workspace(name, spec, device); });
  if (!group) return std::unexpected(group.error());
  execution::GroupStageOptions stage_options = stage_options_;
  stage_options.executor.limits.max_tokens = (*group)->options().max_tokens;
  stage_options.overlaps = overlaps(**group, device);
  const auto number = static_cast<uint16_t>(unused - stages_.begin());
  cpus_.start(name);
  stage_options.share.cpus = cpus_.of(name);
  stage_options.sharing_workers = workers_beside(device, stage_options.share.cpus);
  const std::vector<pipeline::ReturnRing*> returns = pipeline_.return_rings();
  auto stage = execution::GroupStage::create(name, std::move(*group), device, clock_, returns,
                                             stage_options);
  if (!stage) {
    cpus_.stop(name);
    return std::unexpected(stage.error());
  }
  (*stage)->start();
  {
    const std::lock_guard lock(mutex_);
    stages_[number] = std::move(*stage);
    layouts_[number].planner = kFirstPlanner;
    layouts_[number].scheduler = stage_options_.executor.scheduler;
  }
  prepare_scheduler(number);
  find_knee(number);
  // A group with processors of its own is profiled on those that it will have.
  const bool has_own = device.info().division == device::Division::kProcessors;
  shares_.add(number, *stages_[number],
              {.set_percent = settings_[name].share_percent.value_or(0),
               .weight = settings_[name].weight.value_or(1),
               .knee_percent = bounding_knee(number),
               .yields = yields && !has_own});
  if (Status placed = place_groups(); !placed)
    log::warning("groups keep their CPUs, which overlap those of group {}: {}", name,
                 placed.error().message);
  pipeline_.shared().groups.set(number, &stages_[number]->inbox());
  log::info("group {} serves {} on {}", name, model::describe(spec), device.info().kind);
  return number;
}

// Sets the scheduler of a new group. Keeps the configuration's if control's cannot be used.
void TenantService::prepare_scheduler(uint16_t group) {
  const std::string& name = stages_[group]->name();
  const std::string& scheduler = settings_[name].scheduler;
  if (scheduler.empty()) return;
  if (Status used = use_scheduler(group, scheduler); !used)
    log::warning("group {}: using scheduler {}, because {} cannot be used: {}", name,
                 layouts_[group].scheduler, scheduler, used.error().message);
}

Status TenantService::use_scheduler(uint16_t group, const std::string& scheduler) {
  ITIF_TRY(stages_[group]->set_scheduler(scheduler));
  const std::lock_guard lock(mutex_);
  layouts_[group].scheduler = scheduler;
  return {};
}

Result<std::string> TenantService::set_scheduler(const std::string& group,
                                                 const std::string& scheduler) {
  ITIF_ASSIGN(const uint16_t number, number_of(group));
  std::string before = layouts_[number].scheduler;
  ITIF_TRY(use_scheduler(number, scheduler));
  settings_[group].scheduler = scheduler;
  return before;
}

// Returns the number of a group that can have a share.
Result<uint16_t> TenantService::shared_number_of(const std::string& group) const {
  ITIF_ASSIGN(const uint16_t number, number_of(group));
  const device::DeviceInfo& device = stages_[number]->device().info();
  if (device.division != device::Division::kNone) return number;
  return fail(Code::kUnsupported,
              fmt::format("group {} cannot have a share of its device: {} is not divided (`itifctl "
                          "device`)",
                          group, device.kind));
}

Result<uint32_t> TenantService::set_share(const std::string& group, uint32_t percent) {
  ITIF_ASSIGN(const uint16_t number, shared_number_of(group));
  shares_.set(number, percent);
  return std::exchange(settings_[group].share_percent, percent).value_or(0);
}

Result<uint32_t> TenantService::set_weight(const std::string& group, uint32_t weight) {
  ITIF_ASSIGN(const uint16_t number, shared_number_of(group));
  shares_.set_weight(number, weight);
  return std::exchange(settings_[group].weight, weight).value_or(1);
}

Result<std::vector<unsigned>> TenantService::set_cpus(const std::string& group,
                                                      const std::vector<unsigned>& cpus) {
  std::vector<unsigned> before = cpus_.own(group);
  // CPUs that a group without tenants has kept can be taken back.
  if (before.empty() || !cpus.empty()) {
    if (auto number = number_of(group); !number) return std::unexpected(number.error());
  }
  ITIF_TRY(cpus_.give(group, cpus));
  if (Status placed = place_groups(); !placed) {
    Status back = cpus_.give(group, before);
    if (back) back = place_groups();
    if (!back)
      log::error("group {}: some groups keep their new CPUs: {}", group, back.error().message);
    return std::unexpected(placed.error());
  }
  settings_[group].cpus = cpus;
  return before;
}

// Returns the workers whose threads need the CPUs of a compute pool.
std::vector<const telemetry::WorkerCounters*> TenantService::workers_beside(
    const device::Device& device, const std::vector<unsigned>& cpus) const {
  uint32_t num_threads = device.info().num_threads;
  if (!cpus.empty()) num_threads = std::min(num_threads, static_cast<uint32_t>(cpus.size()));
  std::vector<const telemetry::WorkerCounters*> workers;
  for (const size_t worker : pipeline::workers_sharing_cpus({.num_threads = num_threads,
                             .num_process_cpus = device::num_process_cpus(),
                             .executor_cpus = cpus,
                             .worker_cpus = pipeline_.worker_cpus()}))
    workers.push_back(&pipeline_.workers()[worker]->counters());
  return workers;
}

// Moves each group to the CPUs that it is to have, where these have changed.
Status TenantService::place_groups() {
  for (uint16_t number = 0; number < stages_.size(); ++number) {
    if (!stages_[number]) continue;
    execution::GroupStage& stage = *stages_[number];
    const std::vector<unsigned> cpus = cpus_.of(stage.name());
    if (stage.cpus() != cpus) {
      ITIF_TRY(stage.change_cpus(cpus, workers_beside(stage.device(), cpus)));
      use_profiles_of_pool(number);
    }
    const std::vector<unsigned>& own = cpus_.own(stage.name());
    {
      const std::lock_guard lock(mutex_);
      layouts_[number].own_cpus = own;
    }
    if (stage.device().info().division == device::Division::kTime)
      shares_.set_own_cpus(number, own);
  }
  share_cpus();
  return {};
}

// Lets executors spin only while each has its own CPU. One that spins on a CPU needed by another
// costs that one a scheduler time slice per batch. A sleeping executor is woken by its doorbell.
void TenantService::share_cpus() {
  for (const auto& stage : stages_) {
    if (!stage) continue;
    const bool has_all = stage->cpus() == stage_options_.share.cpus;
    const size_t cpus = has_all ? num_executor_cpus_ : cpus_.num_cpus(stage->name());
    stage->set_busy(busy_ && cpus_.num_beside(stage->name()) <= cpus);
  }
}

void TenantService::drop_group_if_empty(uint16_t group) {
  if (!stages_[group] || num_slots_[group] > 0) return;
  pipeline_.shared().groups.set(group, nullptr);
  shares_.remove(group);
  std::unique_ptr<execution::GroupStage> last;
  {
    const std::lock_guard lock(mutex_);
    last = std::move(stages_[group]);
    layouts_[group] = {};
  }
  last->stop();
  cpus_.stop(last->name());
  if (Status placed = place_groups(); !placed)
    log::warning("the CPUs of group {} are not used: {}", last->name(), placed.error().message);
  log::info("group {} is removed: it has no tenants left", last->name());
  loaders_.run([&] { last.reset(); });  // frees its memory
}

std::vector<GroupInfo> TenantService::groups() const {
  const std::lock_guard lock(mutex_);
  std::vector<GroupInfo> entries;
  for (size_t number = 0; number < stages_.size(); ++number) {
    if (!stages_[number]) continue;
    const execution::GroupStage& stage = *stages_[number];
    const runtime::Group& group = stage.group();
    const telemetry::ExecutorCounters& c = stage.counters();
    GroupInfo& entry = entries.emplace_back();
    entry.number = static_cast<uint16_t>(number);
    entry.name = stage.name();
    entry.backbone = model::describe(group.spec());
    entry.max_tenants = group.options().max_tenants;
    entry.used_slots = group.num_tenants();
    entry.weight_bytes = group.weight_bytes();
    entry.workspace_bytes = group.workspace_bytes();
    entry.waiting = stage.inbox().num_waiting();
    entry.executing = stage.num_executing();
    entry.batches = c.batches.read();
    entry.requests = c.requests.read();
    entry.tokens = c.tokens.read();
    entry.rows = c.rows.read();
    entry.planner = layouts_[number].planner;
    entry.scheduler = layouts_[number].scheduler;
    entry.share = shares_.share(static_cast<uint16_t>(number));
    entry.own_cpus = layouts_[number].own_cpus;
    entry.tenants = c.tenants.read();
    entry.refused = c.refused.read();
    entry.busy_ns = c.busy_ns.read();
    entry.turn_wait_ns = c.turn_wait_ns.read();
    const execution::GroupStage::Running running = stage.running();
    entry.running_ns = running.ns;
    entry.running_turn_wait_ns = running.turn_wait_ns;
    entry.answered = c.answered.read();
    entry.execute_ns = c.execute_ns.read();
    entry.intake_ns = c.intake_ns.read();
    entry.overlaps = stage.overlaps();
    entry.max_batch_tokens = group.options().max_tokens;
    entry.max_batch_requests = group.options().max_requests;
    entry.kv_blocks = c.kv_blocks.read();
    entry.kv_blocks_used = c.kv_blocks_used.read();
    entry.kv_blocks_reserved = c.kv_blocks_reserved.read();
    entry.keeps_graphs = stage.device().info().max_bucket_rows > 0;
    entry.graphs = c.graphs.read();
    entry.graph_launches = c.graph_launches.read();
    entry.graph_failures = c.graph_failures.read();
    entry.refused_gemms = c.refused_gemms.read();
    entry.device_failed = stage.device_failed();
    entry.spins = stage.busy();
    entry.compute = stage.device().info().compute;
    entry.device = stage.device().info().kind;
    const auto is_here = [&](const Model* model) {
      return model != nullptr && model->served.group == number;
    };
    for (const Serving& serving : tenants_)
      if (is_here(serving.active()) || is_here(serving.canary()))
        entry.tenant_names.push_back(serving.info.record.name);
  }
  return entries;
}

}  // namespace itif::serving
