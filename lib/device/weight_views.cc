#include "device/weight_views.h"

#include <fmt/format.h>

namespace itif::device {

Status check_weight(const GemmShape& shape, std::span<const TensorView> weight) {
  uint64_t elements = 0;
  for (const TensorView& view : weight) elements += view.shape.elements();
  if (elements == uint64_t{shape.n} * shape.k) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("weights of {} elements do not fill a GEMM of {} × {}", elements, shape.n,
                          shape.k));
}

}  // namespace itif::device
