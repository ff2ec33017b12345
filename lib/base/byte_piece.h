// A contiguous span of bytes, borrowed. A scattered payload is a list of pieces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace itif {

struct BytePiece {
  const std::byte* data = nullptr;
  uint32_t bytes = 0;
};

}  // namespace itif
