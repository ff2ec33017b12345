// The host device, which is always available: oneDNN GEMMs and our own operators on the CPUs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "device/host/cpu.h"
#include "device/host/gemm.h"
#include "device/host/memory.h"
#include "device/host/pool_throttle.h"
#include "device/host/turns.h"
#include "kernels/host/launch.h"

namespace itif::device {

class HostDevice final : public Device {
 public:
  // REQUIRES: check_host_types(info.compute); num_threads > 0.
  HostDevice(DeviceInfo info, kernels::host::Bf16Products products, size_t memory_limit_bytes);

  const DeviceInfo& info() const override { return info_; }
  size_t available_bytes() const override { return budget_->available_bytes(); }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override;
  Result<std::unique_ptr<SlabMemory>> reserve_slab(size_t slot_bytes, uint32_t max_slots) override;
  Status upload(const TensorView& source, DType type, void* target) override;
  void download(const void* source, size_t bytes, void* target) override;
  Result<size_t> packed_bytes(const GemmShape& shape) override {
    return gemms_.packed_bytes(shape);
  }
  Status pack(const GemmShape& shape, std::span<const TensorView> weight, void* target) override;
  Result<GemmHandle> prepare(const GemmShape& shape, uint32_t max_rows) override;
  uint32_t row_slack() const override { return kRowSlack; }
  Status register_host_memory(const void*, size_t) override { return {}; }
  void sleep_early(bool early) noexcept override {
    early ? throttle_.hold() : throttle_.release();
  }
  void set_loading(bool loads) noexcept override {
    sleep_early(loads);
    beside_loads_->store(loads, std::memory_order_relaxed);
  }
  Result<std::unique_ptr<Stream>> make_stream(const StreamLimits& limits,
                                              const StreamOptions& options) override;

 private:
  DeviceInfo info_;
  const kernels::host::HostLaunch launch_;
  std::shared_ptr<MemoryBudget> budget_;
  GemmLibrary gemms_;
  PoolThrottle throttle_;
  const std::shared_ptr<std::atomic<bool>> beside_loads_ =
      std::make_shared<std::atomic<bool>>(false);
  // Streams with the same CPUs compute in turns. Other sets of CPUs are taken to be disjoint.
  std::mutex turns_mutex_;
  std::map<std::vector<unsigned>, std::weak_ptr<Turns>> turns_;  // guarded by turns_mutex_
};

// Errors: kUnsupported, naming types that the host device does not compute with.
Status check_host_types(const ComputeTypes& types);
// Errors: kUnsupported (a dtype that this CPU does not compute natively), kInvalidArgument.
Result<std::unique_ptr<Device>> open_host_device(const DeviceOptions& options,
                                                 const CpuFeatures& cpu);

}  // namespace itif::device
