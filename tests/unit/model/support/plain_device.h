// A device of plain loops in f32, for tests: no library, no threads, and failures on request. It is
// also an independent check of what the operators mean (kernels/args.h).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device/device.h"

namespace itif::testing {

// What the device counts, and where it is told to fail. Shared by the device and what it made.
struct PlainDeviceState {
  int allocations_until_failure = -1;  // buffers and slots together; -1: never fails
  bool fail_synchronize = false;
  Code failure = Code::kInternal;  // its code
  size_t available_bytes = size_t{1} << 40;
  size_t live_buffers = 0;
  size_t live_slots = 0;                                    // committed
  std::vector<kernels::ShapeMode> gemms;                    // launched, and how
  std::map<const void*, std::vector<float>> packed_biases;  // by the weight

  bool may_allocate() {
    if (allocations_until_failure < 0) return true;
    return allocations_until_failure-- > 0;
  }
};

class PlainDevice final : public device::Device {
 public:
  // num_threads: what it says it has.
  explicit PlainDevice(uint32_t num_threads = 0);
  const device::DeviceInfo& info() const override { return info_; }
  size_t available_bytes() const override { return state_->available_bytes; }
  PlainDeviceState& state() { return *state_; }
  // For groups made from here on: DeviceInfo::form_rows.
  void ask_for_forms(uint32_t rows) { info_.form_rows = rows; }

  Result<std::unique_ptr<device::Buffer>> allocate(size_t bytes) override;
  Result<std::unique_ptr<device::SlabMemory>> reserve_slab(size_t slot_bytes,
                                                           uint32_t max_slots) override;
  Status upload(const TensorView& source, DType type, void* target) override;
  void download(const void* source, size_t bytes, void* target) override;
  Result<size_t> packed_bytes(const device::GemmShape& shape) override;
  Status pack(const device::GemmShape& shape, std::span<const TensorView> weight,
              void* target) override;
  Status pack_bias(const device::GemmShape& shape, std::span<const TensorView> bias,
                   void* target) override;
  Result<device::GemmHandle> prepare(const device::GemmShape&, uint32_t) override {
    return nullptr;
  }
  uint32_t row_slack() const override { return 3; }
  Status register_host_memory(const void*, size_t) override { return {}; }
  Result<std::unique_ptr<device::Stream>> make_stream(
      const device::StreamLimits& limits = {}, const device::StreamOptions& options = {}) override;

 private:
  device::DeviceInfo info_;
  std::shared_ptr<PlainDeviceState> state_;
};

}  // namespace itif::testing
