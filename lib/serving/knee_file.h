// The file in which a group keeps the throughput that was measured by share (slice/knee_profile.h),
// beside its cost tables. JSON:
//
//   {"version": 1, "device": "…", "backbone": "…", "curves": [{"requests": 8, "tokens": 64,
//    "points": [{"percent": 20.0, "requests_per_s": 310.5}, …]}, …]}
#pragma once

#include <string>

#include "base/error.h"
#include "slice/knee_profile.h"

namespace itif::serving {

// Returns "knee-<hash of device and backbone>.json". Only the file's own fields prove that it
// belongs to this device and backbone.
std::string knee_file_name(std::string_view device, std::string_view backbone);

// Accepts any bytes. Errors: kNotFound (no file), kPermission, kUnsupported (another version),
// kCorrupt (anything else that write_knee_profile() does not write), with the path.
Result<slice::KneeProfile> read_knee_profile(const std::string& path);

// Writes a new file, then renames it over `path`. Errors: kPermission, kResourceExhausted.
Status write_knee_profile(const slice::KneeProfile& profile, const std::string& path);

}  // namespace itif::serving
