// A version of a tenant's model: a model that was accepted for it.
//
// Versions are numbered from 1. Each new one has the number after the newest, so no number is used
// twice. The active version answers the tenant's requests. A canary answers a part of them, until
// it is promoted or rolled back. The previous version was active before the active one.
#pragma once

#include <cstdint>
#include <string>

namespace itif::tenant {

enum class VersionState : uint8_t {
  kActive,
  kCanary,
  kPrevious,    // was active before the active one; a rollback makes it active again
  kRetired,     // was active before the previous one
  kRolledBack,  // was active or canary until a rollback
};
inline constexpr uint8_t kNumVersionStates = 5;

struct Version {
  uint32_t number = 1;
  std::string model_dir;
  uint64_t installed_unix_ns = 0;  // when it was accepted; 0: unknown
  VersionState state = VersionState::kActive;
  std::string base_dir = {};  // of an adapter's base model; empty: model_dir holds a whole model

  bool operator==(const Version&) const = default;
};

// "active", "canary", "previous", "retired", "rolled_back".
const char* version_state_name(VersionState state) noexcept;

}  // namespace itif::tenant
