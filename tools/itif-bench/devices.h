// The devices that a bench runs on, one of each element type that it is asked for, and what is timed on them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bare.h"
#include "benches.h"
#include "device/device.h"

namespace itif::bench {

using OnDevice = std::function<Status(device::Device& device, const std::string& dtype)>;

// Opens options.device in each of options.dtypes, names it in the report and calls `run`, one after
// another. Types that this device lacks are left out, with a note. Errors: those of the device and of `run`.
Status on_each_device(const BenchOptions& options, Report& report, const OnDevice& run);

// Waits for what was launched as a group's thread waits for a GPU: by asking. Errors: as
// Stream::synchronize. REQUIRES: no event is pending.
Status run_to_end(device::Stream& stream);

// Samples of launches that take microseconds, called in turn with `limits` as measure() does: each is made
// short_repeats(on) times in a row, for waiting for a GPU takes as long, and stands for one of them. REQUIRES:
// limits do theirs as often. Errors: those of the stream.
Result<std::vector<Samples>> measure_short(device::Stream& stream, const Hardware& on,
                                           const std::vector<std::function<void()>>& launches,
                                           const std::vector<Bare*>& limits, const Effort& effort);

}  // namespace itif::bench
