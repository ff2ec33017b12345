// A run of bytes somewhere in memory: what scattered payloads are made of. Borrowed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace itif {

struct BytePiece {
  const std::byte* data = nullptr;
  uint32_t bytes = 0;
};

}  // namespace itif
