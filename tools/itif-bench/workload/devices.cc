#include "workload/devices.h"

#include <fmt/format.h>

namespace itif::bench {

Status on_each_device(const BenchOptions& options, Report& report, const OnDevice& run) {
  for (const std::string& dtype : options.dtypes) {
    const auto device = device::open_device({.kind = options.device,
                                             .dtype = dtype,
                                             .attention = options.attention,
                                             .num_threads = options.threads});
    if (!device && device.error().code == Code::kUnsupported && options.device != "cuda") {
      report.note(fmt::format("skipped {}: {}", dtype, device.error().message));
      continue;
    }
    if (!device) return std::unexpected(device.error());
    report.add_device(fmt::format("{} on {}", dtype, (*device)->info().description));
    ITIF_TRY(run(**device, dtype));
  }
  return {};
}

Status run_to_end(device::Stream& stream) {
  const device::Stream::Event end = stream.record();
  while (!stream.is_done(end)) {
  }
  return stream.wait(end).status;
}

Result<std::vector<Samples>> measure_short(device::Stream& stream, const Hardware& on,
                                           const std::vector<std::function<void()>>& launches,
                                           const std::vector<Bare*>& limits, const Effort& effort) {
  const uint32_t repeats = short_repeats(on);
  Status status;
  std::vector<std::function<void()>> functions;
  for (const auto& launch : launches)
    functions.push_back([&stream, &status, &launch, repeats] {
      for (uint32_t i = 0; i < repeats; ++i) launch();
      if (Status ran = run_to_end(stream); !ran) status = std::move(ran);
    });
  for (Bare* limit : limits) functions.push_back([limit] { limit->run(); });
  std::vector<Samples> samples = measure(functions, effort);
  ITIF_TRY(std::move(status));
  for (Samples& one : samples)
    for (double& ns : one.ns) ns /= repeats;
  return samples;
}

}  // namespace itif::bench
