// The implementations of bare.h for each kind of hardware: bare_host.cc, bare_cuda.cc and, in
// builds without the CUDA toolkit, bare_no_cuda.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "limits/bare_types.h"

namespace itif::bench {

Result<std::unique_ptr<Bare>> host_gemms(const Hardware& on, std::span<const GemmSize> gemms,
                                         const GemmOrder& order);
Result<std::unique_ptr<Bare>> cuda_gemms(const Hardware& on, std::span<const GemmSize> gemms,
                                         const GemmOrder& order);
Result<std::unique_ptr<Bare>> host_chains(const Hardware& on, std::span<const GemmSize> gemms,
                                          const std::vector<GemmOrder>& chains);
Result<std::unique_ptr<Bare>> host_copy(const Hardware& on, size_t bytes, uint32_t times);
Result<std::unique_ptr<Bare>> cuda_copy(size_t bytes, uint32_t times, bool is_from_host);

// Copies on `threads` threads.
void copy_bytes(void* to, const void* from, size_t bytes, uint32_t threads);

}  // namespace itif::bench
