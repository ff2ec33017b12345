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

// The group that a version was loaded into last, and the largest model that the group takes. A
// group that is made again for this version gets the same limits, in whichever order its models
// load.
struct Placement {
  std::string group;  // its name; empty: the version has not been loaded yet
  uint32_t vocab = 0, max_positions = 0, type_vocab = 0;

  bool operator==(const Placement&) const = default;
};

// The files of a version as they were when it was loaded. A number of a version always means the
// same digest.
struct Contents {
  std::string digest;  // serving/model_contents.h: 64 hexadecimal digits; empty: unknown
  std::string stamp;   // of the files that had this digest last: 32 hexadecimal digits, or empty

  bool operator==(const Contents&) const = default;
};

struct Version {
  uint32_t number = 1;
  std::string model_dir;
  uint64_t installed_unix_ns = 0;  // when it was accepted; 0: unknown
  VersionState state = VersionState::kActive;
  std::string base_dir = {};  // of an adapter's base model; empty: model_dir holds a whole model
  Placement placement = {};
  Contents contents = {};

  bool operator==(const Version&) const = default;
};

// "active", "canary", "previous", "retired", "rolled_back".
const char* version_state_name(VersionState state) noexcept;

}  // namespace itif::tenant
