#include "device/sim/sim_device.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/check.h"
#include "device/compute_types.h"
#include "device/sim/machine_costs.h"
#include "device/sim/row_marks.h"
#include "device/sim/sim_stream.h"

namespace itif::device {

Result<SimOptions> simulated_machine(const Machine& machine, const std::string& dtype) {
  ITIF_ASSIGN(const ComputeTypes types, read_compute_types(dtype, uniform_types(DType::kF16)));
  if (machine.flops(types.activations) == 0)
    return fail(Code::kUnsupported, fmt::format("{} does not compute with {}", machine.description,
                                                compute_name(types)));
  return SimOptions{.info = {.kind = "sim",
                             .compute = types,
                             .description = fmt::format("simulated {}, {}", machine.description,
                                                        compute_name(types)),
                             .reason = {},
                             .memory_bytes = machine.memory_bytes},
                    .costs = std::make_unique<MachineCosts>(machine, types)};
}

SimDevice::SimDevice(VirtualClock& clock, SimOptions options)
    : options_(std::move(options)), timeline_(clock), budget_(options_.info.memory_bytes) {
  CHECK(options_.costs);
  options_.info.kind = "sim";
  options_.info.division = options_.is_divided ? Division::kProcessors : Division::kNone;
}

SimDevice::~SimDevice() {
  CHECK(num_streams_ == 0 && budget_.used_bytes() == 0);
}

Status SimDevice::upload(const TensorView& source, DType, void* target) {
  if (!options_.passes_marks) return {};
  const uint64_t mark = source.bytes() < sizeof(mark) ? kSpoiled : mark_of(source);
  std::memcpy(target, &mark, sizeof(mark));
  return {};
}

void SimDevice::download(const void* source, size_t bytes, void* target) {
  if (bytes != 0) std::memcpy(target, source, bytes);
}

Result<size_t> SimDevice::packed_bytes(const GemmShape& shape) {
  return size_t{shape.n} * shape.k * dtype_bytes(options_.info.compute.weights);
}

Status SimDevice::pack(const GemmShape&, std::span<const TensorView> weight, void* target) {
  if (!options_.passes_marks) return {};
  uint64_t mark = mark_of(weight.front());
  for (const TensorView& view : weight)
    if (mark_of(view) != mark) mark = kSpoiled;
  std::memcpy(target, &mark, sizeof(mark));
  return {};
}

Result<GemmHandle> SimDevice::prepare(const GemmShape&, uint32_t) {
  return std::make_shared<const kernels::PreparedGemm>();
}

Status SimDevice::reset() {
  CHECK(num_streams_ == 0 && budget_.used_bytes() == 0);
  timeline_.reset();
  num_lanes_ = 0;
  return {};
}

Result<std::unique_ptr<Stream>> SimDevice::make_stream(const StreamLimits&,
                                                       const StreamOptions& options) {
  const size_t act_bytes =
      options_.passes_marks ? dtype_bytes(options_.info.compute.activations) : 0;
  auto stream =
      std::make_unique<SimStream>(timeline_, options_.is_divided ? num_lanes_++ : 0,
                                  *options_.costs, num_streams_, act_bytes, options_.host);
  if (options_.is_divided) stream->set_percent(options.share.percent);
  return stream;
}

}  // namespace itif::device
