// Types of bare.h, and of its parts for each kind of hardware.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace itif::bench {

struct Hardware {
  bool is_gpu = false;
  ComputeTypes compute = {};  // bare GEMMs use the activations' type for their weights, too
  uint32_t threads = 1;       // host only
};

// Prepared work.
class Bare {
 public:
  virtual ~Bare() = default;
  // Runs the work and waits until it is complete.
  virtual void run() = 0;
};

struct GemmSize {
  uint32_t rows = 0, n = 0, k = 0;
};
// Indices of GEMMs. The groups run one after another; the GEMMs of a group do not depend on each
// other, as those of several tenants.
using GemmOrder = std::vector<std::vector<uint32_t>>;

}  // namespace itif::bench
