#include "runtime/cost/pass_tenants.h"

#include <algorithm>

namespace itif::runtime {
namespace {

// The part of a cache that several tenants' weights may fill. The rest is for activations, and for
// other programs: virtual machines share the last-level cache, and see its whole size.
constexpr size_t kCachePart = 4;

}  // namespace

uint32_t max_pass_tenants(const device::DeviceInfo& device,
                          std::span<const backbone::GemmUse> gemms) noexcept {
  if (device.num_threads == 0) return 0;
  size_t shared_bytes = 0;  // of one tenant
  for (const backbone::GemmUse& use : gemms)
    if (use.num_weights > 0 && use.num_weights < use.times)
      shared_bytes +=
          size_t{use.num_weights} * use.shape.n * use.shape.k * dtype_bytes(device.compute.weights);
  if (shared_bytes == 0 || shared_bytes > device.cache_bytes) return 0;
  return static_cast<uint32_t>(
      std::clamp<size_t>(device.cache_bytes / kCachePart / shared_bytes, 1, UINT32_MAX));
}

}  // namespace itif::runtime
