// Arguments of the operator that adds the low-rank updates of adapters (LoRA) to a GEMM's result.
// The conventions of kernels/args.h apply.
//
// All adapters of a batch share the base's GEMM. Each adapter's rows then take two small products
// of its own. Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021,
// equation 3.
#pragma once

#include "kernels/args.h"

namespace itif::kernels {

// Ranks are padded with zeros to a multiple of this, so that rows of `down` are whole packs.
inline constexpr uint32_t kRankStep = 8;

// An adapter's update of one module: out += (x · down) · up. 16-byte aligned.
struct LowRankModule {
  const void* down = nullptr;  // act [k, rank]
  const void* up = nullptr;    // act [rank, columns], times the adapter's scale
  uint32_t rank = 0;           // 0: the adapter leaves the module as it is
};
// Adjacent rows of one adapter.
struct AdapterRows {
  uint32_t first_row = 0, num_rows = 0;
  uint32_t max_rank = 0;                   // of the modules
  const LowRankModule* modules = nullptr;  // device memory: all modules of the backbone
};
// out[r] += (x[r] · down) · up, for the rows of each adapter. The modules [first_module,
// first_module + num_modules) of a stacked GEMM have equal parts of the columns, in their order.
// x · down may be rounded to the activation type.
struct AddLowRank {
  static constexpr const char* kName = "add_low_rank";
  const void* x = nullptr;  // act [T, k]
  void* out = nullptr;      // act [T, width]; not x
  uint32_t k = 0;
  uint32_t width = 0;                          // a multiple of num_modules
  std::span<const AdapterRows> adapters = {};  // without overlap; some may have no rows
  uint32_t first_module = 0, num_modules = 1;
};

using AdapterOperators = OperatorList<AddLowRank>;

namespace host {
void run(const AddLowRank& args, const HostLaunch& launch) noexcept;
}
namespace cuda {
void run(const AddLowRank& args, Plan& plan);
}

}  // namespace itif::kernels
