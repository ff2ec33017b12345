// What the hardware does by itself, which figures stand beside: GEMMs through its library alone (prepacked, with
// neither bias nor activation, for exactly the rows asked for), and copies.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"

namespace itif::bench {

struct Hardware {
  bool is_gpu = false;
  DType type = DType::kF32;  // of a host: kF32 or kBF16
  uint32_t threads = 1;      // of a host
};
Hardware hardware_of(const device::DeviceInfo& info);
// How often what is short is done in a row, so that waiting for a GPU does not count.
uint32_t short_repeats(const Hardware& on);

// Something prepared.
class Bare {
 public:
  virtual ~Bare() = default;
  // Does it, and waits.
  virtual void run() = 0;
};

struct GemmSize {
  uint32_t rows = 0, n = 0, k = 0;
};
// gemms[i] for each i of `order`, one after another. Each has weights and buffers of its own. Errors:
// kResourceExhausted, kUnsupported.
Result<std::unique_ptr<Bare>> bare_gemms(const Hardware& on, std::span<const GemmSize> gemms,
                                         std::span<const uint32_t> order);
// Each once.
Result<std::unique_ptr<Bare>> bare_gemms(const Hardware& on, std::span<const GemmSize> gemms);
// Copies that read and write half of `bytes` each, `times` in a row.
Result<std::unique_ptr<Bare>> bare_copy(const Hardware& on, size_t bytes, uint32_t times);
// The same from the host's memory to the device's: over the bus. Of a host, a copy.
Result<std::unique_ptr<Bare>> bare_upload(const Hardware& on, size_t bytes, uint32_t times);

}  // namespace itif::bench
