// The planners of the tenant service's groups, and the cost tables that the planners use.
#include <fmt/format.h>

#include <filesystem>

#include "base/log.h"
#include "model/spec.h"
#include "plan/cost_file.h"
#include "plan/make_planner.h"
#include "runtime/cost/pass_limits.h"
#include "runtime/cost/profiler.h"
#include "serving/measure_task.h"
#include "serving/tenant_service.h"

namespace itif::serving {
namespace {

// The longest time that a new group measures its costs before it serves. The measurement of a
// large backbone takes minutes beside groups that are always busy.
constexpr uint64_t kFirstProfileNs = 20'000'000'000;

}  // namespace

Result<uint16_t> TenantService::number_of(const std::string& group) const {
  for (uint16_t i = 0; i < stages_.size(); ++i)
    if (stages_[i] && stages_[i]->name() == group) return i;
  return fail(Code::kNotFound, fmt::format("there is no group '{}': itifctl group list", group));
}

// Names what changes a group's costs, besides the device and its libraries
// (DeviceInfo::description).
std::string TenantService::profiled_as(const execution::GroupStage& stage) const {
  const runtime::Group& group = stage.group();
  const device::DeviceInfo& device = stage.device().info();
  const runtime::GroupOptions& options = group.options();
  const size_t cpus = stage.cpus().size();
  const bool is_reduced = cpus > 0 && cpus < device.num_threads;
  return fmt::format(
      "{}, vocabulary {}, {} positions, {}, {}, {} tokens, {} requests, {} beams, "
      "{} tenants, {} per pass{}",
      model::signature(group.spec()), group.spec().vocab, group.spec().max_tokens(),
      kind_options_.encoder.fusion_mode == backbone::FusionMode::kFused ? "fused" : "thesis",
      compute_name(device.compute), options.max_tokens, options.max_requests,
      kind_options_.decoder.max_beams, options.max_tenants,
      runtime::pass_limits(device, group.gemms()).max_tenants,
      is_reduced ? fmt::format(", {} threads", cpus) : "");
}

void TenantService::expect_groups(std::map<std::string, control::GroupSettings> settings) {
  settings_ = std::move(settings);
  for (auto& [name, group] : settings_) {
    if (!group.cpus) continue;
    if (Status given = cpus_.give(name, *group.cpus); !given)
      log::warning("{}; it shares the CPUs of groups without CPUs of their own",
                   given.error().message);
  }
}

// Sets the planner of a new group. Falls back to packed, so that the group serves in any case.
void TenantService::prepare_planner(uint16_t group, const control::Progress& progress) {
  const std::string& name = stages_[group]->name();
  const std::string& set = settings_[name].planner;
  const std::string& planner = set.empty() ? default_planner_ : set;
  const uint64_t until_ns = clock_.now_ns() + kFirstProfileNs;
  Status ready = find_tables(group, progress, [this, until_ns] {
    return cancelled_.load() || is_restoring_ || is_wanted() || clock_.now_ns() >= until_ns;
  });
  if (layouts_[group].lacks_tables)
    log::info("group {}: its costs are measured later, while nothing else is done", name);
  if (ready || !plan::needs_cost_tables(planner)) ready = use_planner(group, planner);
  if (ready) return;
  if (layouts_[group].lacks_tables)
    log::info("group {}: using planner packed until then, not {}", name, planner);
  else
    log::warning("group {}: using planner packed, because {} cannot be used: {}", name, planner,
                 ready.error().message);
  if (Status packed = use_planner(group, "packed"); !packed)
    log::error("group {}: {}", name, packed.error().message);
}

Status TenantService::use_planner(uint16_t group, const std::string& planner) {
  ITIF_TRY(stages_[group]->set_planner(planner, layouts_[group].tables));
  const std::lock_guard lock(mutex_);
  layouts_[group].planner = planner;
  return {};
}

Result<std::string> TenantService::set_planner(const std::string& group, const std::string& planner,
                                               const control::Progress& progress) {
  ITIF_ASSIGN(const uint16_t number, number_of(group));
  if (plan::needs_cost_tables(planner))
    ITIF_TRY(find_tables(number, progress, [this] { return cancelled_.load(); }));
  std::string before = layouts_[number].planner;
  ITIF_TRY(use_planner(number, planner));
  settings_[group].planner = planner;
  return before;
}

// Finds the group's cost tables: measured by this process, else read from the profile of an earlier
// process on this device, else measured now.
Status TenantService::find_tables(uint16_t group, const control::Progress& progress,
                                  const std::function<bool()>& gives_up) {
  if (layouts_[group].tables) return {};
  const execution::GroupStage& stage = *stages_[group];
  if (stage.group().gemms().empty())
    return fail(Code::kUnsupported, "its backbone has no GEMMs to profile");
  auto tables = read_tables(group);
  if (tables) {
    use_tables(group, std::move(*tables));
    return {};
  }
  ITIF_TRY(measure_tables(group, progress, gives_up));
  if (const Status saved = save_tables(group); !saved) log::warning("{}", saved.error().message);
  return {};
}

// Returns what an earlier process has measured on this device.
std::optional<plan::CostTables> TenantService::read_tables(uint16_t group) const {
  const execution::GroupStage& stage = *stages_[group];
  const std::string backbone = profiled_as(stage);
  const std::string& device = stage.device().info().description;
  auto read = plan::read_cost_tables(profile_dir_ + "/" + plan::cost_file_name(device, backbone));
  if (!read || read->device != device || read->backbone != backbone) return std::nullopt;
  return std::move(*read);
}

// Uses the knee and the costs that were measured with as many threads as the group has now. The
// group keeps its costs if there are no such costs.
void TenantService::use_profiles_of_pool(uint16_t group) {
  find_knee(group);
  if (!layouts_[group].tables || layouts_[group].tables->backbone == profiled_as(*stages_[group]))
    return;
  const std::string& name = stages_[group]->name();
  auto tables = read_tables(group);
  if (!tables) {
    log::info(
        "group {}: planners use costs of another number of CPUs until `itifctl profile run {}`",
        name, name);
    return;
  }
  use_tables(group, std::move(*tables));
  if (Status used = use_planner(group, layouts_[group].planner); !used)
    log::error("group {}: {}", name, used.error().message);
}

// Measures the costs of the groups that could not do so when they were made, until an operation
// waits. The next call begins again with the group that was interrupted.
void TenantService::measure_missing() {
  for (uint16_t group = 0; group < stages_.size(); ++group) {
    if (!stages_[group] || !layouts_[group].lacks_tables || stages_[group]->device_failed())
      continue;
    const auto gives_up = [this] { return cancelled_.load() || is_wanted(); };
    if (gives_up()) return;
    const std::string& name = stages_[group]->name();
    Status ready = measure_tables(group, {}, gives_up);
    if (layouts_[group].lacks_tables) return;  // interrupted
    if (!ready) {
      log::warning("group {}: its costs cannot be measured: {}", name, ready.error().message);
      continue;
    }
    if (const Status saved = save_tables(group); !saved) log::warning("{}", saved.error().message);
    const std::string& set = settings_[name].planner;
    const std::string& planner = set.empty() ? default_planner_ : set;
    ready = use_planner(group, planner);
    if (ready)
      log::info("group {}: its costs are measured; it uses planner {}", name, planner);
    else
      log::warning("group {}: {}", name, ready.error().message);
  }
}

// Errors: kUnavailable: it gave up; the group then lacks_tables.
Status TenantService::measure_tables(uint16_t group, const control::Progress& progress,
                                     const std::function<bool()>& gives_up) {
  execution::GroupStage& stage = *stages_[group];
  runtime::Group& instance = stage.group();
  runtime::Profiler profiler(stage.device(), clock_, instance.gemms(), profiled_as(stage),
                             runtime::profile_options(instance));
  MeasureTask task(profiler, gives_up);
  stage.perform(task, [&] {
    if (progress && !cancelled_.load()) progress("profiling GEMMs", task.progress());
  });
  layouts_[group].lacks_tables = task.gave_up() && !layouts_[group].tables;
  if (cancelled_.load()) return fail(Code::kUnavailable, "itifd is stopping");
  if (task.gave_up()) return fail(Code::kUnavailable, "its costs are not measured yet");
  ITIF_ASSIGN(plan::CostTables tables, profiler.finish());
  use_tables(group, std::move(tables));
  return {};
}

Status TenantService::save_tables(uint16_t group) const {
  const plan::CostTables& tables = *layouts_[group].tables;
  std::error_code error;
  std::filesystem::create_directories(profile_dir_, error);
  const std::string path =
      profile_dir_ + "/" + plan::cost_file_name(tables.device, tables.backbone);
  if (const Status written = plan::write_cost_tables(tables, path); !written)
    return fail(written.error().code,
                fmt::format("the profile of group {} is in use, but not saved: the next start "
                            "measures it again: {}",
                            stages_[group]->name(), written.error().message));
  return {};
}

void TenantService::use_tables(uint16_t group, plan::CostTables tables) {
  const auto shared = std::make_shared<const plan::CostTables>(std::move(tables));
  stages_[group]->group().set_costs(shared);
  const std::lock_guard lock(mutex_);
  layouts_[group].tables = shared;
}

Result<std::shared_ptr<const plan::CostTables>> TenantService::profile(
    const std::string& group) const {
  const std::lock_guard lock(mutex_);
  ITIF_ASSIGN(const uint16_t number, number_of(group));
  if (!layouts_[number].tables)
    return fail(
        Code::kNotFound,
        fmt::format("group '{}' has not been profiled: itifctl profile run {}", group, group));
  return layouts_[number].tables;
}

Result<TenantService::PlannedBatches> TenantService::planned_batches(
    const std::string& group) const {
  const std::lock_guard lock(mutex_);
  ITIF_ASSIGN(const uint16_t number, number_of(group));
  const execution::GroupStage& stage = *stages_[number];
  ITIF_TRY(stage.supports_every_planner());
  return PlannedBatches{layouts_[number].planner, stage.recent_batches().read()};
}

Status TenantService::run_profile(const std::string& group, const control::Progress& progress) {
  ITIF_ASSIGN(const uint16_t number, number_of(group));
  if (stages_[number]->group().gemms().empty())
    return fail(Code::kUnsupported,
                fmt::format("the backbone of group '{}' has no GEMMs to profile", group));
  ITIF_TRY(measure_tables(number, progress, [this] { return cancelled_.load(); }));
  const Status saved = save_tables(number);
  ITIF_TRY(use_planner(number, std::string(layouts_[number].planner)));
  const bool divides_processors =
      stages_[number]->device().info().division == device::Division::kProcessors;
  if (divides_processors && can_measure_knee(number)) ITIF_TRY(measure_knee(number, progress));
  return saved;
}

}  // namespace itif::serving
