// Memory of a simulated device: addresses that count against its size, and pages only where marks
// are written. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device.h"

namespace itif::device {

class SimBudget {
 public:
  explicit SimBudget(size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  // Errors: kResourceExhausted, with the figures.
  Status take(size_t bytes);
  void give_back(size_t bytes) noexcept;
  size_t used_bytes() const noexcept { return used_bytes_; }
  size_t available_bytes() const noexcept { return limit_bytes_ - used_bytes_; }

 private:
  const size_t limit_bytes_;
  size_t used_bytes_ = 0;
};

// `budget` outlives the results. Errors: kResourceExhausted.
Result<std::unique_ptr<Buffer>> allocate_sim_buffer(SimBudget& budget, size_t bytes);
// A released slot reads as zeros, so that its marks are gone.
Result<std::unique_ptr<SlabMemory>> reserve_sim_slab(SimBudget& budget, size_t slot_bytes,
                                                     uint32_t max_slots);

}  // namespace itif::device
