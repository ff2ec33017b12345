// The tenant service's groups: finds the group for a model, creates and removes groups.
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "backbone/open_model.h"
#include "base/log.h"
#include "device/threads.h"
#include "pipeline/lcores.h"
#include "runtime/result_bytes.h"
#include "serving/tenant_service.h"
#include "wire/payload.h"

namespace itif::serving {
namespace {

// Limits the text of one request. Not a limit on tokens: truncation makes long texts legal.
constexpr uint32_t kTextBytesPerToken = 32;
constexpr const char* kFirstPlanner = "packed";  // an executor's initial planner

// Thrown by a progress callback to abort a load. Group::admit() converts it to an error.
struct Cancelled : std::exception {
  const char* what() const noexcept override { return "cancelled"; }
};

std::unexpected<Error> stopping() {
  return fail(Code::kUnavailable, "itifd is stopping: start it again and repeat the request");
}

uint16_t kind_bit(wire::PayloadKind kind) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(kind));
}

// Sets the payload kinds that the model accepts, and the length above which a payload of any kind
// is too long.
void set_payloads(const model::TenantModel& model, uint16_t& kinds, uint32_t& max_bytes) {
  using wire::PayloadKind;
  if (model.spec.takes_images()) {
    kinds = kind_bit(PayloadKind::kImageF32);
    max_bytes = static_cast<uint32_t>(std::min<uint64_t>(
        sizeof(wire::ImagePrefix) + 4 * model.spec.image.values(), wire::kMaxTotalBytes));
    if (!model.images) return;
    kinds |= kind_bit(PayloadKind::kImageU8);
    if (model.images->resize) max_bytes = wire::kMaxTotalBytes;
    return;
  }
  kinds = kind_bit(PayloadKind::kTokensU16) | kind_bit(PayloadKind::kTokensU32);
  max_bytes = model.max_tokens * 4;
  if (!model.tokenizer) return;
  kinds |= kind_bit(PayloadKind::kText);
  max_bytes = model.max_tokens * kTextBytesPerToken;
}

}  // namespace

Result<std::optional<uint16_t>> TenantService::find_group(const std::string& name,
                                                          const model::BackboneSpec& spec) const {
  bool named_one_failed = false;
  for (uint16_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i]) continue;
    const execution::GroupStage& stage = *stages_[i];
    if (!name.empty()) {
      if (stage.name() != name) continue;
      // The admin chose this group. Group::admit() checks that the model fits.
      if (!stage.device_failed()) return i;
      named_one_failed = true;  // its namesake on the fallback may exist
    } else if (!stage.device_failed() && model::check_fits(stage.group().spec(), spec) &&
               (!is_full(i) || has_previous(i))) {
      return i;
    }
  }
  if (named_one_failed)
    return fail(Code::kUnavailable,
                fmt::format("group {} refuses all requests because its device has failed: wait "
                            "until it has moved to the fallback, name another group or none, or "
                            "restart itifd",
                            name));
  return std::nullopt;
}

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
  ITIF_ASSIGN(const uint16_t number, make_group(made_name, spec, devices_.serving()));
  prepare_planner(number, progress);
  return number;
}

Result<uint16_t> TenantService::make_group(const std::string& name, const model::BackboneSpec& spec,
                                           device::Device& device) {
  const auto unused = std::find(stages_.begin(), stages_.end(), nullptr);
  if (unused == stages_.end()) {
    return fail(Code::kResourceExhausted,
                fmt::format("there are {} groups already: remove all tenants of one first",
                            pipeline::GroupTable::kMaxGroups));
  }
  runtime::GroupOptions options = group_options_;
  options.max_tokens = std::max(options.max_tokens, spec.max_tokens());
  execution::GroupStageOptions stage_options = stage_options_;
  stage_options.executor.limits.max_tokens = options.max_tokens;
  ITIF_ASSIGN(auto group, make_group_(device, spec, options, kind_options_));
  stage_options.overlaps = overlaps(*group, device);
  for (const size_t worker :
       pipeline::workers_sharing_cpus({.num_threads = device.info().num_threads,
       .num_process_cpus = device::num_process_cpus(),
       .executor_cpus = stage_options.share.cpus,
       .worker_cpus = pipeline_.worker_cpus()}))
    stage_options.sharing_workers.push_back(&pipeline_.workers()[worker]->counters());
  const std::vector<pipeline::ReturnRing*> returns = pipeline_.return_rings();
  ITIF_ASSIGN(auto stage, execution::GroupStage::create(name, std::move(group), device, clock_,
                                                        returns, stage_options));
  stage->start();
  const auto number = static_cast<uint16_t>(unused - stages_.begin());
  {
    const std::lock_guard lock(mutex_);
    stages_[number] = std::move(stage);
    layouts_[number].planner = kFirstPlanner;
    layouts_[number].scheduler = stage_options_.executor.scheduler;
  }
  prepare_scheduler(number);
  share_cpus();
  find_knee(number);
  shares_.add(number, *stages_[number],
              {.set_percent = settings_[name].share_percent.value_or(0),
               .knee_percent = bounding_knee(number)});
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

Result<uint32_t> TenantService::set_share(const std::string& group, uint32_t percent) {
  ITIF_ASSIGN(const uint16_t number, number_of(group));
  const device::DeviceInfo& device = stages_[number]->device().info();
  if (device.division == device::Division::kNone)
    return fail(
        Code::kUnsupported,
        fmt::format("group {} cannot have a share of its device: {} does not divide its time",
                    group, device.kind));
  shares_.set(number, percent);
  return std::exchange(settings_[group].share_percent, percent).value_or(0);
}

// Lets executors spin only while each has its own CPU. One that spins on a CPU needed by another
// costs that one a scheduler time slice per batch. A sleeping executor is woken by its doorbell.
void TenantService::share_cpus() {
  const auto groups = std::count_if(stages_.begin(), stages_.end(),
                                    [](const auto& stage) { return stage != nullptr; });
  for (const auto& stage : stages_)
    if (stage) stage->set_busy(busy_ && static_cast<size_t>(groups) <= num_executor_cpus_);
}

void TenantService::drop_group_if_empty(uint16_t group) {
  if (!stages_[group] || stages_[group]->group().num_tenants() > 0) return;
  pipeline_.shared().groups.set(group, nullptr);
  shares_.remove(group);
  std::unique_ptr<execution::GroupStage> last;
  {
    const std::lock_guard lock(mutex_);
    last = std::move(stages_[group]);
    layouts_[group] = {};
  }
  last->stop();
  share_cpus();
  log::info("group {} is removed: it has no tenants left", last->name());
}

Result<TenantService::Model> TenantService::load(const tenant::Record& record,
                                                 const tenant::Version& version, Origin origin,
                                                 const control::Progress& progress) {
  for (;;) {
    auto loaded = try_load(record, version, progress);
    if (loaded && origin == Origin::kNew)
      if (Status good = check(*loaded, version.model_dir, find(record.id)->info.index, progress);
          !good)
        return std::unexpected(good.error());
    if (loaded || loaded.error().code != Code::kResourceExhausted || !free_previous(std::nullopt))
      return loaded;
  }
}

Result<TenantService::Model> TenantService::try_load(const tenant::Record& record,
                                                     const tenant::Version& version,
                                                     const control::Progress& progress) try {
  if (cancelled_.load()) return stopping();
  if (progress) progress("reading " + version.model_dir, 0);
  // Creating a group reserves memory for the architecture, so first check that the model opens.
  ITIF_ASSIGN(backbone::OpenedModel opened,
              backbone::open_model({version.model_dir, version.base_dir}));
  ITIF_ASSIGN(std::optional<uint16_t> found, find_group(record.group, opened.spec));
  if (!found) {
    ITIF_ASSIGN(found, start_group(record.group, opened.spec, progress));
  }
  while (is_full(*found) && free_previous(*found)) {
  }
  return load_into(*found, record, version, std::move(opened), progress);
} catch (const std::bad_alloc&) {
  return fail(Code::kResourceExhausted, fmt::format("{}: no memory to load it", version.model_dir));
} catch (const std::exception& e) {
  return unexpected_failure(version.model_dir, e);
}

std::unexpected<Error> TenantService::unexpected_failure(const std::string& model_dir,
                                                         const std::exception& e) {
  return fail(Code::kInternal, fmt::format("{}: unexpected failure: {}", model_dir, e.what()));
}

bool TenantService::is_full(uint16_t group) const {
  const runtime::Group& instance = stages_[group]->group();
  return instance.num_tenants() >= instance.options().max_tenants;
}

Result<TenantService::Model> TenantService::load_into(uint16_t number, const tenant::Record& record,
                                                      const tenant::Version& version,
                                                      backbone::OpenedModel opened,
                                                      const control::Progress& progress) {
  runtime::Group& group = stages_[number]->group();
  auto slot = group.admit_opened(std::move(opened), [&](const std::string& stage, double fraction) {
    if (cancelled_.load()) throw Cancelled();
    if (progress) progress(stage, fraction);
  });
  if (!slot) {
    drop_group_if_empty(number);
    if (cancelled_.load()) return stopping();
    return std::unexpected(slot.error());
  }
  const model::TenantModel& model = *group.model(*slot);
  Model loaded;
  loaded.served.version = version.number;
  loaded.served.group = number;
  loaded.served.slot = *slot;
  loaded.served.max_tokens = model.max_tokens;
  set_payloads(model, loaded.served.payload_kinds, loaded.served.max_payload_bytes);
  loaded.served.lease = std::make_shared<tenant::Lease>();
  loaded.served.lease->counts = counts_of(record.id, version.number);
  loaded.info = {
      .group = stages_[number]->name(),
      .backbone = model::describe(model.spec),
      .head = model::describe(model.head.spec, model.spec),
      .labels = std::make_shared<const std::vector<std::string>>(model.head.spec.labels),
      .result_kind = wire::result_kind_name(runtime::default_result_kind(model.head.spec)),
      .max_tokens = model.max_tokens,
      .weight_bytes = model.weight_bytes,
      .adapter_bytes = model.adapter_bytes,
      .shared_bytes = group.workspace_bytes()};
  return loaded;
}

void TenantService::unload(const Model& model) {
  stages_[model.served.group]->group().release(model.served.slot);
  drop_group_if_empty(model.served.group);
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
    entry.tenants = c.tenants.read();
    entry.refused = c.refused.read();
    entry.busy_ns = c.busy_ns.read();
    entry.turn_wait_ns = c.turn_wait_ns.read();
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
