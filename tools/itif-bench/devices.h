// The devices that a bench runs on: one of each element type that it is asked for.
#pragma once

#include <functional>
#include <string>

#include "benches.h"
#include "device/device.h"

namespace itif::bench {

using OnDevice = std::function<Status(device::Device& device, const std::string& dtype)>;

// Opens the host device in each of options.dtypes, names it in the report and calls `run`, one after
// another. Types that this CPU lacks are left out, with a note. Errors: those of the device and of `run`.
Status on_each_device(const BenchOptions& options, Report& report, const OnDevice& run);

}  // namespace itif::bench
