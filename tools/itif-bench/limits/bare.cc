#include "limits/bare.h"

#include <algorithm>
#include <numeric>

#include "limits/bare_parts.h"

namespace itif::bench {
namespace {

constexpr uint32_t kShortRepeats = 32;

}  // namespace

Hardware hardware_of(const device::DeviceInfo& info) {
  return {.is_gpu = info.kind == "cuda",
          .compute = info.compute,
          .threads = std::max(1u, info.num_threads)};
}

uint32_t short_repeats(const Hardware& on) {
  return on.is_gpu ? kShortRepeats : 1;
}

Result<std::unique_ptr<Bare>> bare_gemms(const Hardware& on, std::span<const GemmSize> gemms,
                                         const GemmOrder& order) {
  return on.is_gpu ? cuda_gemms(on, gemms, order) : host_gemms(on, gemms, order);
}

Result<std::unique_ptr<Bare>> bare_gemms(const Hardware& on, std::span<const GemmSize> gemms) {
  std::vector<uint32_t> order(gemms.size());
  std::iota(order.begin(), order.end(), 0u);
  return bare_gemms(on, gemms, {order});
}

Result<std::unique_ptr<Bare>> bare_chains(const Hardware& on, std::span<const GemmSize> gemms,
                                          const std::vector<GemmOrder>& chains) {
  if (on.is_gpu) return fail(Code::kUnsupported, "chains of GEMMs are for threads of a CPU");
  return host_chains(on, gemms, chains);
}

Result<std::unique_ptr<Bare>> bare_copy(const Hardware& on, size_t bytes, uint32_t times) {
  return on.is_gpu ? cuda_copy(bytes / 2, times, false) : host_copy(on, bytes / 2, times);
}

Result<std::unique_ptr<Bare>> bare_upload(const Hardware& on, size_t bytes, uint32_t times) {
  return on.is_gpu ? cuda_copy(bytes / 2, times, true) : host_copy(on, bytes / 2, times);
}

}  // namespace itif::bench
