// The operations of the control server as data: what each takes, checked, and where it runs.
// Adding one: a struct here, a parser in operation.cc's table, a visit in dispatch.cc,
// docs/control.md.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace itif::control {

// A tenant by id (unsigned integer) or name (string).
using TenantRef = std::variant<uint32_t, std::string>;

struct AddTenant {
  std::string name;
  std::string model_dir;
  std::string group;
  uint64_t slo_ns = 0;
  uint32_t weight = 1;
  uint32_t quota_rps = 0;
  uint8_t auth = 1;  // wire::Auth
};

// Absent fields stay as they are.
struct UpdateTenant {
  TenantRef tenant;
  std::optional<std::string> name;
  std::optional<std::string> model_dir;  // implies reload
  std::optional<uint64_t> slo_ns;
  std::optional<uint32_t> weight;
  std::optional<uint32_t> quota_rps;
  std::optional<uint8_t> auth;
  bool reload = false;
};

struct PauseTenant {
  TenantRef tenant;
};
struct ResumeTenant {
  TenantRef tenant;
};
struct RemoveTenant {
  TenantRef tenant;
};
struct RotateKey {
  TenantRef tenant;
  bool drop_previous = false;  // forget the previous key; make no new one
};
struct Drain {
  std::optional<uint64_t> timeout_ns;
};
struct Undrain {};

// How a group lays out its batches.
struct UpdateGroup {
  std::string group;
  std::string planner;
};
struct RunProfile {
  std::string group;
};
struct ShowProfile {
  std::string group;
};

struct ResetDevice {};

struct ListTenants {};
struct ShowTenant {
  TenantRef tenant;
};
struct ListGroups {};
struct Stats {};
struct Drops {};
struct ShowDevice {};
struct Health {};
struct DataAddress {};

// May take long or changes something: the worker thread runs it.
using WorkerOperation =
    std::variant<AddTenant, UpdateTenant, PauseTenant, ResumeTenant, RemoveTenant, RotateKey,
                 UpdateGroup, RunProfile, ResetDevice, Drain, Undrain>;
// Quick and changes nothing: the I/O thread answers.
using QuickOperation = std::variant<ListTenants, ShowTenant, ListGroups, ShowProfile, Stats, Drops,
                                    ShowDevice, Health, DataAddress>;
using Operation = std::variant<QuickOperation, WorkerOperation>;

// Errors: kInvalidArgument (arguments, by name), kNotFound (no such operation; lists them).
// REQUIRES: args is an object.
Result<Operation> parse_operation(std::string_view op, const nlohmann::json& args);

std::vector<std::string> operation_names();

}  // namespace itif::control
