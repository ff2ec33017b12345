// The hardware limits that figures are compared with: GEMMs through the vendor library alone
// (prepacked, without bias or activation, exactly the rows given), and copies.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "device/device.h"
#include "limits/bare_types.h"

namespace itif::bench {

Hardware hardware_of(const device::DeviceInfo& info);
// Number of back-to-back repeats of a short operation, so that waiting for a GPU does not count.
uint32_t short_repeats(const Hardware& on);

// Runs gemms[i] for each i of `order`. A group's GEMMs run sequentially, each on the whole device,
// or several at a time, whichever is faster. Each GEMM has its own weights. GEMMs that never
// run concurrently share inputs and outputs. Errors: kResourceExhausted, kUnsupported.
Result<std::unique_ptr<Bare>> bare_gemms(const Hardware& on, std::span<const GemmSize> gemms,
                                         const GemmOrder& order);
// Runs each GEMM once, as one group.
Result<std::unique_ptr<Bare>> bare_gemms(const Hardware& on, std::span<const GemmSize> gemms);
// Runs chains of GEMMs side by side, each in order on one thread at a time. Errors: kUnsupported
// (a GPU).
Result<std::unique_ptr<Bare>> bare_chains(const Hardware& on, std::span<const GemmSize> gemms,
                                          const std::vector<GemmOrder>& chains);
// `times` copies in a row. Each moves `bytes`, reads and writes together.
Result<std::unique_ptr<Bare>> bare_copy(const Hardware& on, size_t bytes, uint32_t times);
// The same copies from host memory to device memory, over the bus. On a host: bare_copy().
Result<std::unique_ptr<Bare>> bare_upload(const Hardware& on, size_t bytes, uint32_t times);

}  // namespace itif::bench
