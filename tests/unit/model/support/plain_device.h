// A device of plain loops in f32, for tests: no library, no threads, and failures on request. Its
// loops also check the definitions of the operators (kernels/args.h) independently.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "device/device.h"

namespace itif::testing {

// A launched GEMM with planned calls: the ranges of each.
struct PlannedGemm {
  std::vector<std::vector<kernels::RowRange>> calls;
};

// Counters and requested failures. The device shares them with its buffers, slabs and streams.
struct PlainDeviceState {
  int allocations_until_failure = -1;  // buffers and slots together; -1: never fails
  int shares_until_failure = -1;       // SlabMemory::share(); -1: never fails
  bool fail_synchronize = false;
  Code failure = Code::kInternal;  // of fail_synchronize
  size_t available_bytes = size_t{1} << 40;
  size_t live_buffers = 0, buffer_bytes = 0;
  size_t live_slots = 0;                                    // with memory of their own
  size_t slab_bytes = 0;                                    // of these
  bool slots_can_share = true;                              // SlabMemory::can_share()
  bool packs_biases = false;                                // Device::packs_bias()
  std::vector<kernels::ShapeMode> gemms;                    // launched, with modes
  std::vector<PlannedGemm> planned_gemms;                   // those of them that were planned
  std::map<const void*, std::vector<float>> packed_biases;  // by weight address
  // Called for every launch, and for each GEMM in it; may be null.
  std::function<void(const kernels::Operator&)> on_operator;
  std::function<void(const kernels::GroupedGemm&)> on_gemm;

  bool may_allocate() {
    if (allocations_until_failure < 0) return true;
    return allocations_until_failure-- > 0;
  }
  bool may_share() {
    if (shares_until_failure < 0) return true;
    return shares_until_failure-- > 0;
  }
};

class PlainDevice final : public device::Device {
 public:
  // `num_threads` is only reported in info().
  explicit PlainDevice(uint32_t num_threads = 0);
  const device::DeviceInfo& info() const override { return info_; }
  size_t available_bytes() const override { return state_->available_bytes; }
  PlainDeviceState& state() { return *state_; }
  // Sets the largest graph bucket in rows (DeviceInfo::max_bucket_rows) for groups that are created
  // later.
  void use_buckets_of(uint32_t rows) { info_.max_bucket_rows = rows; }
  // Sets DeviceInfo::division. Streams ignore their shares.
  void divide_by(device::Division division) { info_.division = division; }
  // The types of info() only: results stay f32.
  void claim_types(ComputeTypes types) { info_.compute = types; }
  void use_gemm_modes(std::vector<kernels::GemmMode> modes) { info_.gemm_modes = std::move(modes); }

  Result<std::unique_ptr<device::Buffer>> allocate(size_t bytes) override;
  Result<std::unique_ptr<device::SlabMemory>> reserve_slab(size_t slot_bytes,
                                                           uint32_t max_slots) override;
  Status upload(const TensorView& source, DType type, void* target) override;
  void download(const void* source, size_t bytes, void* target) override;
  Result<size_t> packed_bytes(const device::GemmShape& shape) override;
  Status pack(const device::GemmShape& shape, std::span<const TensorView> weight,
              void* target) override;
  bool packs_bias(const device::GemmShape& shape) const override {
    return state_->packs_biases && shape.has_bias;
  }
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
