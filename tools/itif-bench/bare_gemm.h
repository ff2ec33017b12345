// The floor: GEMMs run bare through oneDNN, prepacked, with neither bias nor activation, for exactly
// the number of rows asked for.
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/dtype.h"

namespace itif::bench {

// One GEMM of fixed size with weights and buffers of its own.
class BareGemm {
 public:
  virtual ~BareGemm() = default;
  virtual void run() = 0;
};

// type: kF32 or kBF16; `threads` as the device has.
std::unique_ptr<BareGemm> make_bare_gemm(DType type, uint32_t rows, uint32_t n, uint32_t k,
                                         uint32_t threads);

}  // namespace itif::bench
