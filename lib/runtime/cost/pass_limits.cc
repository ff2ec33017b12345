#include "runtime/cost/pass_limits.h"

#include <algorithm>

namespace itif::runtime {
namespace {

// Several tenants' weights may fill 1/kCacheDivisor of a cache. The rest is for activations, and
// for other programs: virtual machines share the last-level cache, and see its whole size.
constexpr size_t kCacheDivisor = 4;

uint32_t max_tenants(const device::DeviceInfo& device,
                     std::span<const backbone::GemmUse> gemms) noexcept {
  size_t shared_bytes = 0;  // of one tenant
  for (const backbone::GemmUse& use : gemms)
    if (use.num_weights > 0 && use.num_weights < use.times)
      shared_bytes +=
          size_t{use.num_weights} * use.shape.n * use.shape.k * dtype_bytes(device.compute.weights);
  if (shared_bytes == 0 || shared_bytes > device.cache_bytes) return 0;
  return static_cast<uint32_t>(
      std::clamp<size_t>(device.cache_bytes / kCacheDivisor / shared_bytes, 1, UINT32_MAX));
}

// Returns the tokens whose inputs and outputs of the widest GEMM fit in the cores' own caches.
uint32_t max_shared_tokens(const device::DeviceInfo& device,
                           std::span<const backbone::GemmUse> gemms) noexcept {
  size_t token_bytes = 0;
  for (const backbone::GemmUse& use : gemms)
    token_bytes = std::max(
        token_bytes, (size_t{use.shape.n} + use.shape.k) * dtype_bytes(device.compute.activations));
  if (device.core_cache_bytes == 0 || token_bytes == 0) return 0;
  return static_cast<uint32_t>(std::clamp<size_t>(
      device.num_threads * device.core_cache_bytes / token_bytes, 1, UINT32_MAX));
}

}  // namespace

PassLimits pass_limits(const device::DeviceInfo& device,
                       std::span<const backbone::GemmUse> gemms) noexcept {
  if (device.num_threads == 0) return {};
  return {.max_tenants = max_tenants(device, gemms),
          .max_shared_tokens = max_shared_tokens(device, gemms)};
}

}  // namespace itif::runtime
