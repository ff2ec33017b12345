// Numbers of rows of oneDNN's calls (gemm.h).
#pragma once

#include <cstdint>

#include "device/gemm_partitioner.h"
#include "tensor/dtype.h"

namespace itif::device {

// Most rows of a call. f32: measured, as fast per row as calls of 2,048. bf16: oneDNN 2.6 divides
// 272 to 512 rows badly on AMX. It takes 1.1 to 3.5 times as long as for 256 rows and the rest
// (`itif-bench gemm`, 272, 464 and 1008 rows).
inline constexpr uint32_t kMaxCallRows = 512, kMaxBf16CallRows = 256;
constexpr uint32_t call_rows(const ComputeTypes& types) {
  return types.activations == DType::kBF16 ? kMaxBf16CallRows : kMaxCallRows;
}
// Rows past a range that its last call may read and overwrite.
inline constexpr uint32_t kRowSlack = 15;
// Most rows of a single-threaded task.
inline constexpr uint32_t kConcurrentRows = GemmPartitioner::kMaxTaskRows;

}  // namespace itif::device
