// The settings of a tenant that an admin may change at any time, and the table of their names and
// ranges. Requests, answers, the registry and the data plane's snapshot all follow the table: a new
// setting is a member, a row of kSettingFields, and a column in control/registry.cc's migrations.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "wire/header.h"

namespace itif::tenant {

struct Settings {
  uint64_t slo_ns = 0;     // latency objective, never a reason to refuse; 0: none
  uint32_t weight = 1;     // share among the tenants of the group
  uint32_t quota_rps = 0;  // accepted requests per second; 0: unlimited
  uint8_t auth = static_cast<uint8_t>(wire::Auth::kFull);  // wire::Auth
};

struct SettingField {
  const char* name;      // in requests, answers and the registry
  uint64_t min, max;     // in requests
  uint64_t storage_max;  // in the registry: the largest value that the member holds
  uint64_t (*get)(const Settings& settings);
  void (*set)(Settings& settings, uint64_t value);
  // The name of each value in requests and answers; empty: they contain the number.
  std::span<const char* const> choices = {};
};

template <auto member>
SettingField setting_field(const char* name, uint64_t min, uint64_t max,
                           std::span<const char* const> choices = {}) {
  using Value = std::remove_cvref_t<decltype(Settings{}.*member)>;
  // SQLite's integers are signed.
  constexpr uint64_t kStorageMax =
      std::min<uint64_t>(std::numeric_limits<Value>::max(), std::numeric_limits<int64_t>::max());
  return {.name = name,
          .min = min,
          .max = max,
          .storage_max = choices.empty() ? kStorageMax : choices.size() - 1,
          .get = [](const Settings& settings) { return uint64_t{settings.*member}; },
          .set = [](Settings& settings,
                    uint64_t value) { settings.*member = static_cast<Value>(value); },
          .choices = choices};
}

inline const std::array kAuthNames = {
    wire::auth_name(wire::Auth::kNone), wire::auth_name(wire::Auth::kHeader),
    wire::auth_name(wire::Auth::kFull), wire::auth_name(wire::Auth::kSealed)};

inline constexpr uint64_t kMaxSloNs = 3600'000'000'000;  // an hour: more is in the wrong unit
inline constexpr uint32_t kMaxWeight = 1000;
inline constexpr uint32_t kMaxQuotaRps = 1'000'000'000;
inline const std::array kSettingFields = {
    setting_field<&Settings::slo_ns>("slo_ns", 0, kMaxSloNs),
    setting_field<&Settings::weight>("weight", 1, kMaxWeight),
    setting_field<&Settings::quota_rps>("quota_rps", 0, kMaxQuotaRps),
    setting_field<&Settings::auth>("auth", 0, kAuthNames.size() - 1, kAuthNames),
};

}  // namespace itif::tenant
