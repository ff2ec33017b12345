#include "control/operation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/cpu_list.h"
#include "control/arguments.h"
#include "control/group_settings.h"

namespace itif::control {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxTraced = 1000;  // requests; = pipeline::Tracer::kMaxRequests
constexpr uint64_t kLeastIntervalNs = 1'000'000'000, kMostIntervalNs = 3600'000'000'000;
constexpr uint64_t kMaxDrainNs = 24 * 3600'000'000'000;
constexpr uint64_t kMaxCanaryPercent = 99;

tenant::Ref tenant_ref(Arguments& in) {
  constexpr const char* kMust = "a tenant's name (string) or id (integer)";
  const json* value = in.any("tenant");
  if (value != nullptr && value->is_string() &&
      tenant_name_rule(value->get_ref<const std::string&>()) == nullptr)
    return value->get<std::string>();
  if (value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() <= UINT32_MAX)
    return static_cast<uint32_t>(value->get<uint64_t>());
  in.wrong("tenant", value ? kMust : fmt::format("given: {}", kMust));
  return uint32_t{0};
}

SettingChanges setting_changes(Arguments& in) {
  SettingChanges changes;
  for (size_t i = 0; i < changes.values.size(); ++i) {
    const tenant::SettingField& field = tenant::kSettingFields[i];
    if (field.choices.empty())
      changes.values[i] = in.optional_number(field.name, field.min, field.max);
    else
      changes.values[i] = in.optional_choice(field.name, field.choices);
  }
  return changes;
}

Result<Operation> add_tenant(Arguments& in) {
  AddTenant add;
  add.name = in.text("name", tenant_name_rule);
  add.model_dir = in.text("model_dir", absolute_path_rule);
  add.base = in.optional_text("base", base_rule).value_or("");
  add.group = in.optional_text("group", group_name_rule).value_or("");
  setting_changes(in).apply(add.settings);
  ITIF_TRY(in.finish());
  return WorkerOperation(std::move(add));
}

Result<Operation> update_tenant(Arguments& in) {
  UpdateTenant update;
  update.tenant = tenant_ref(in);
  update.name = in.optional_text("name", tenant_name_rule);
  update.model_dir = in.optional_text("model_dir", absolute_path_rule);
  update.base = in.optional_text("base", base_rule);
  update.settings = setting_changes(in);
  update.reload = in.flag("reload") || update.model_dir || update.base;
  update.canary_percent = in.optional_number("canary_percent", 1, kMaxCanaryPercent);
  ITIF_TRY(in.finish());
  if (!update.name && update.settings.empty() && !update.reload && !update.canary_percent) {
    std::string settings;
    for (const tenant::SettingField& field : tenant::kSettingFields)
      settings += fmt::format("{}, ", field.name);
    settings.resize(settings.size() - 2);
    return fail(Code::kInvalidArgument,
                fmt::format("tenant.update: nothing to change: give name, model_dir, base, {}, "
                            "canary_percent or reload",
                            settings));
  }
  return WorkerOperation(std::move(update));
}

Result<Operation> rotate_key(Arguments& in) {
  RotateKey rotate{tenant_ref(in), in.flag("drop_previous")};
  ITIF_TRY(in.finish());
  return WorkerOperation(std::move(rotate));
}

Result<Operation> remove_tenant(Arguments& in) {
  RemoveTenant remove{tenant_ref(in), in.optional_number("timeout_ns", 0, kMaxDrainNs)};
  ITIF_TRY(in.finish());
  return WorkerOperation(std::move(remove));
}

Result<Operation> drain(Arguments& in) {
  Drain drain{in.optional_number("timeout_ns", 0, kMaxDrainNs)};
  ITIF_TRY(in.finish());
  return WorkerOperation(drain);
}

Result<Operation> hand_over(Arguments& in) {
  HandOver hand_over{in.optional_text("binary", absolute_path_rule).value_or(""),
                     in.optional_text("config", absolute_path_rule).value_or(""),
                     in.optional_number("timeout_ns", 1, kMaxDrainNs)};
  ITIF_TRY(in.finish());
  return WorkerOperation(std::move(hand_over));
}

// 0: a part of what the other groups leave.
std::optional<uint32_t> share_percent(Arguments& in) {
  const auto percent = in.optional_number("share_percent", 0, 100);
  if (!percent) return std::nullopt;
  return static_cast<uint32_t>(*percent);
}

std::optional<uint32_t> weight(Arguments& in) {
  const auto weight = in.optional_number("weight", 1, kMaxGroupWeight);
  if (!weight) return std::nullopt;
  return static_cast<uint32_t>(*weight);
}

// []: the group has no CPUs of its own.
std::optional<std::vector<unsigned>> cpus(Arguments& in) {
  const nlohmann::json* list = in.any("cpus");
  if (list == nullptr) return std::nullopt;
  std::vector<unsigned> cpus;
  bool valid = list->is_array();
  for (size_t i = 0; valid && i < list->size(); ++i) {
    const nlohmann::json& cpu = (*list)[i];
    valid = cpu.is_number_unsigned() && cpu.get<uint64_t>() <= kMaxCpu;
    if (valid) cpus.push_back(cpu.get<unsigned>());
  }
  std::ranges::sort(cpus);
  if (valid && std::ranges::adjacent_find(cpus) == cpus.end()) return cpus;
  in.wrong("cpus", fmt::format("a list of different CPUs from 0 to {}", kMaxCpu));
  return std::nullopt;
}

Result<Operation> update_group(Arguments& in) {
  UpdateGroup update{in.text("group", tenant_name_rule),
                     in.optional_text("planner", spec_rule),
                     in.optional_text("scheduler", spec_rule),
                     share_percent(in),
                     cpus(in),
                     weight(in)};
  ITIF_TRY(in.finish());
  if (!update.planner && !update.scheduler && !update.share_percent && !update.cpus &&
      !update.weight)
    return fail(Code::kInvalidArgument,
                "group.update: nothing to change: give planner, scheduler, share_percent, cpus or "
                "weight");
  return WorkerOperation(std::move(update));
}

Result<Operation> show_knee(Arguments& in) {
  ShowKnee show{in.text("group", tenant_name_rule),
                in.optional_number("threshold_percent", 1, 100)};
  ITIF_TRY(in.finish());
  return QuickOperation(std::move(show));
}

Result<Operation> bottleneck(Arguments& in) {
  ShowBottleneck show{in.optional_text("group", tenant_name_rule).value_or(""),
                      in.optional_number("interval_ns", kLeastIntervalNs, kMostIntervalNs)
                          .value_or(kLeastIntervalNs)};
  ITIF_TRY(in.finish());
  return QuickOperation(std::move(show));
}

// A number that must be given.
uint32_t given_number(Arguments& in, const char* name, uint64_t max) {
  const auto value = in.optional_number(name, 0, max);
  if (!value) in.wrong(name, fmt::format("given: an integer from 0 to {}", max));
  return static_cast<uint32_t>(value.value_or(0));
}

Result<Operation> start_trace(Arguments& in) {
  StartTrace start{tenant_ref(in), static_cast<uint32_t>(
                                       in.optional_number("requests", 1, kMaxTraced).value_or(1))};
  ITIF_TRY(in.finish());
  return QuickOperation(std::move(start));
}

Result<Operation> read_trace(Arguments& in) {
  ReadTrace read{given_number(in, "trace", UINT32_MAX),
                 static_cast<uint32_t>(in.optional_number("first", 0, kMaxTraced).value_or(0))};
  ITIF_TRY(in.finish());
  return QuickOperation(read);
}

Result<Operation> stop_trace(Arguments& in) {
  StopTrace stop{given_number(in, "trace", UINT32_MAX)};
  ITIF_TRY(in.finish());
  return QuickOperation(stop);
}

template <class Kind, class Op>
Result<Operation> of_group(Arguments& in) {
  Op op{in.text("group", tenant_name_rule)};
  ITIF_TRY(in.finish());
  return Kind(std::move(op));
}

// An operation whose only argument is a tenant.
template <class Kind, class Op>
Result<Operation> of_tenant(Arguments& in) {
  Op op{tenant_ref(in)};
  ITIF_TRY(in.finish());
  return Kind(std::move(op));
}

template <class Kind, class Op>
Result<Operation> plain(Arguments& in) {
  ITIF_TRY(in.finish());
  return Operation(std::in_place_type<Kind>, std::in_place_type<Op>);
}

struct Entry {
  std::string_view name;
  Result<Operation> (*parse)(Arguments& in);
};

constexpr Entry kOperations[] = {
    {"tenant.add", add_tenant},
    {"tenant.list", plain<QuickOperation, ListTenants>},
    {"tenant.show", of_tenant<QuickOperation, ShowTenant>},
    {"tenant.update", update_tenant},
    {"tenant.pause", of_tenant<WorkerOperation, PauseTenant>},
    {"tenant.resume", of_tenant<WorkerOperation, ResumeTenant>},
    {"tenant.rotate_key", rotate_key},
    {"tenant.versions", of_tenant<QuickOperation, ShowVersions>},
    {"tenant.promote", of_tenant<WorkerOperation, PromoteTenant>},
    {"tenant.rollback", of_tenant<WorkerOperation, RollBackTenant>},
    {"tenant.remove", remove_tenant},
    {"tenant.stages", of_tenant<QuickOperation, ShowStages>},
    {"group.bottleneck", bottleneck},
    {"trace.start", start_trace},
    {"trace.read", read_trace},
    {"trace.stop", stop_trace},
    {"group.list", plain<QuickOperation, ListGroups>},
    {"group.update", update_group},
    {"group.planner", of_group<QuickOperation, ShowPlanner>},
    {"group.knee", show_knee},
    {"group.measure_knee", of_group<WorkerOperation, MeasureKnee>},
    {"profile.show", of_group<QuickOperation, ShowProfile>},
    {"profile.run", of_group<WorkerOperation, RunProfile>},
    {"stats", plain<QuickOperation, Stats>},
    {"drops", plain<QuickOperation, Drops>},
    {"device", plain<QuickOperation, ShowDevice>},
    {"device.reset", plain<WorkerOperation, ResetDevice>},
    {"health", plain<QuickOperation, Health>},
    {"drain", drain},
    {"handover", hand_over},
    {"undrain", plain<WorkerOperation, Undrain>},
    {"data_address", plain<QuickOperation, DataAddress>},
};

}  // namespace

bool SettingChanges::empty() const {
  return std::ranges::none_of(values, [](const auto& value) { return value.has_value(); });
}

void SettingChanges::apply(tenant::Settings& settings) const {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i]) tenant::kSettingFields[i].set(settings, *values[i]);
}

Result<Operation> parse_operation(std::string_view op, const json& args) {
  for (const Entry& entry : kOperations) {
    if (entry.name != op) continue;
    Arguments in(op, args);
    return entry.parse(in);
  }
  return fail(Code::kNotFound, fmt::format("op '{}' is unknown: use one of {}", op.substr(0, 64),
                                           fmt::join(operation_names(), ", ")));
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kOperations) names.emplace_back(entry.name);
  return names;
}

}  // namespace itif::control
