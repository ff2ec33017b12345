// For builds without the CUDA toolkit. Never called: no CUDA device opens there.
#include "limits/bare_parts.h"

namespace itif::bench {

Result<std::unique_ptr<Bare>> cuda_gemms(const Hardware&, std::span<const GemmSize>,
                                         const GemmOrder&) {
  return fail(Code::kUnsupported, "this build has no CUDA");
}
Result<std::unique_ptr<Bare>> cuda_copy(size_t, uint32_t, bool) {
  return fail(Code::kUnsupported, "this build has no CUDA");
}

}  // namespace itif::bench
