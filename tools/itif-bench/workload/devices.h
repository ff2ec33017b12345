// The devices of a bench, one per requested element type, and timing of launches on them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "benches.h"
#include "device/device.h"
#include "limits/bare.h"

namespace itif::bench {

using OnDevice = std::function<Status(device::Device& device, const std::string& dtype)>;

// For each of options.dtypes: opens options.device, names it in the report and calls `run`. Types
// that the device lacks are skipped with a note. Errors: those of the device and of `run`.
Status on_each_device(const BenchOptions& options, Report& report, const OnDevice& run);

// Waits until all launches are complete, by polling, as a group's thread waits for a GPU. REQUIRES:
// no event is pending. Errors: as Stream::synchronize.
Status run_to_end(device::Stream& stream);

// Samples of launches that take microseconds, interleaved with `limits` as in measure(). A sample
// times short_repeats(on) launches in a row and is divided by their number: waiting for a GPU takes
// as long as one launch. REQUIRES: each limit repeats its work as often. Errors: those of the
// stream.
Result<std::vector<Samples>> measure_short(device::Stream& stream, const Hardware& on,
                                           const std::vector<std::function<void()>>& launches,
                                           const std::vector<Bare*>& limits, const Effort& effort);

}  // namespace itif::bench
