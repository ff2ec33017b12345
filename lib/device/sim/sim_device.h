// A device that computes nothing: its operators take the time that a cost model gives, on a virtual
// clock. lib/sim runs the appliance on it.
//
// All streams share one timeline: a batch starts when the previous one of any stream has ended. On
// a divided device each stream has its own timeline and a part of the multiprocessors, its
// Share::percent: batches of different streams run side by side.
// Launches never block, whatever StreamOptions::is_async says.
// Results are zeros, or with marks a function of the request's tokens and of the model
// (row_marks.h). A decoder generates as many tokens as its source asks for (next_tokens.h).
//
// Owned, like its streams and memory, by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "device/device.h"
#include "device/sim/machine.h"
#include "device/sim/operator_costs.h"
#include "device/sim/sim_host.h"
#include "device/sim/sim_memory.h"
#include "device/sim/timeline.h"

namespace itif::device {

struct SimOptions {
  DeviceInfo info = {};  // kind becomes "sim"; memory_bytes limits buffers and slabs
  std::unique_ptr<OperatorCosts> costs = {};
  bool passes_marks = false;
  SimHost host = {};
  bool is_divided = false;  // streams run side by side
};

// Describes a machine as a device. `dtype`: a name of kComputeTypes; "auto": f16. Errors:
// kUnsupported, the machine does not compute with the type.
Result<SimOptions> simulated_machine(const Machine& machine, const std::string& dtype);

class SimDevice final : public Device {
 public:
  // `clock` outlives the device. REQUIRES: options.costs.
  SimDevice(VirtualClock& clock, SimOptions options);
  ~SimDevice() override;

  const DeviceInfo& info() const override { return options_.info; }
  size_t available_bytes() const override { return budget_.available_bytes(); }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override {
    return allocate_sim_buffer(budget_, bytes);
  }
  Result<std::unique_ptr<SlabMemory>> reserve_slab(size_t slot_bytes, uint32_t max_slots) override {
    return reserve_sim_slab(budget_, slot_bytes, max_slots);
  }
  Status upload(const TensorView& source, DType type, void* target) override;
  void download(const void* source, size_t bytes, void* target) override;
  Result<size_t> packed_bytes(const GemmShape& shape) override;
  Status pack(const GemmShape& shape, std::span<const TensorView> weight, void* target) override;
  Result<GemmHandle> prepare(const GemmShape& shape, uint32_t max_rows) override;
  uint32_t row_slack() const override { return 0; }
  Status register_host_memory(const void*, size_t) override { return {}; }
  Status reset() override;
  Result<std::unique_ptr<Stream>> make_stream(const StreamLimits& limits,
                                              const StreamOptions& options) override;

  // Every batch that has not ended fails from now on, and every later one until reset().
  void break_now() noexcept { timeline_.break_now(); }
  bool is_broken() const noexcept { return timeline_.is_broken(); }
  // Returns the next time after now at which a batch ends or has read its inputs; UINT64_MAX: none.
  uint64_t next_event_ns() noexcept { return timeline_.next_event_ns(); }
  // Time of all batches, each times its stream's part of the device.
  uint64_t busy_ns() const noexcept { return timeline_.busy_ns(); }
  size_t used_bytes() const noexcept { return budget_.used_bytes(); }

 private:
  SimOptions options_;
  Timeline timeline_;
  SimBudget budget_;
  uint32_t num_streams_ = 0;
  size_t num_lanes_ = 0;  // given to streams so far
};

}  // namespace itif::device
