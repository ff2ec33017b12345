// The operations of the control server: their checked arguments and the thread that runs them.
// To add one: a struct here, a parser in operation.cc's table, a case in dispatch.cc, and
// docs/control.md.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "tenant/record.h"

namespace itif::control {

struct AddTenant {
  std::string name;
  std::string model_dir;
  std::string base;  // of an adapter: a model's directory, or a tenant's name; empty: none
  std::string group;
  tenant::Settings settings;
};

// New values of some settings, in the order of tenant::kSettingFields.
struct SettingChanges {
  std::array<std::optional<uint64_t>, tenant::kSettingFields.size()> values;

  bool empty() const;
  void apply(tenant::Settings& settings) const;
};

// Absent fields do not change.
struct UpdateTenant {
  tenant::Ref tenant;
  std::optional<std::string> name;
  // Imply reload. A new model without a new base has none.
  std::optional<std::string> model_dir, base;
  SettingChanges settings;
  bool reload = false;
  std::optional<uint64_t> canary_percent;  // with reload: the new version is a canary
};

struct PauseTenant {
  tenant::Ref tenant;
};
struct ResumeTenant {
  tenant::Ref tenant;
};
struct RemoveTenant {
  tenant::Ref tenant;
  std::optional<uint64_t> timeout_ns;  // for its last requests
};
struct PromoteTenant {
  tenant::Ref tenant;
};
struct RollBackTenant {
  tenant::Ref tenant;
};
struct RotateKey {
  tenant::Ref tenant;
  bool drop_previous = false;  // only drop the previous key; make no new key
};
// Starts another itifd process, which takes over from this one.
struct HandOver {
  std::string binary;  // an absolute path; empty: that of this process
  std::string config;  // likewise
  std::optional<uint64_t> timeout_ns;
};
struct Drain {
  std::optional<uint64_t> timeout_ns;
};
struct Undrain {};

// Changes a group's settings: at least one of them.
struct UpdateGroup {
  std::string group;
  std::optional<std::string> planner;
  std::optional<std::string> scheduler;
  std::optional<uint32_t> share_percent;
  std::optional<std::vector<unsigned>> cpus;  // ascending; empty: none of its own
  std::optional<uint32_t> weight;
};
struct RunProfile {
  std::string group;
};
struct MeasureKnee {
  std::string group;
};
struct ShowKnee {
  std::string group;
  std::optional<uint64_t> threshold_percent;  // of throughput
};
struct ShowProfile {
  std::string group;
};
struct ShowPlanner {
  std::string group;
};

struct ResetDevice {};

struct ListTenants {};
struct ShowTenant {
  tenant::Ref tenant;
};
struct ShowVersions {
  tenant::Ref tenant;
};
struct ShowStages {
  tenant::Ref tenant;
};
struct ListGroups {};
struct ShowBottleneck {
  std::string group;  // empty: all
  uint64_t interval_ns = 0;
};
// Traces of single requests. One at a time.
struct StartTrace {
  tenant::Ref tenant;
  uint32_t requests = 1;
};
struct ReadTrace {
  uint32_t trace = 0;
  uint32_t first = 0;  // record
};
struct StopTrace {
  uint32_t trace = 0;
};
struct Stats {};
struct Drops {};
struct ShowDevice {};
struct Health {};
struct DataAddress {};

// Operations that may take long or change something; the job thread runs them.
using WorkerOperation =
    std::variant<AddTenant, UpdateTenant, PauseTenant, ResumeTenant, RemoveTenant, RotateKey,
                 PromoteTenant, RollBackTenant, UpdateGroup, RunProfile, MeasureKnee, ResetDevice,
                 Drain, Undrain, HandOver>;
// Quick operations; the I/O thread answers them. They are read-only, except those of traces.
using QuickOperation =
    std::variant<ListTenants, ShowTenant, ShowVersions, ShowStages, ListGroups, ShowBottleneck,
                 ShowPlanner, ShowProfile, ShowKnee, StartTrace, ReadTrace, StopTrace, Stats, Drops,
                 ShowDevice, Health, DataAddress>;
using Operation = std::variant<QuickOperation, WorkerOperation>;

// Errors: kInvalidArgument (names the argument), kNotFound (unknown operation; lists all).
// REQUIRES: args is an object.
Result<Operation> parse_operation(std::string_view op, const nlohmann::json& args);

std::vector<std::string> operation_names();

}  // namespace itif::control
