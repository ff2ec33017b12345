// Parameters of every host operator besides its arguments, and the partition of rows among threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/args.h"
#include "kernels/decode_args.h"
#include "kernels/low_rank_args.h"
#include "kernels/thesis_args.h"
#include "tensor/dtype.h"

namespace itif::kernels::host {

// How bf16 numbers are multiplied: widened to f32, or by the CPU's bf16 instructions.
enum class Bf16Products : uint8_t { kWidened, kAvx512, kAmx };

// Working memory of the threads, allocated once for the longest segment. It holds the packed K and
// V of one head and the scores of one tile of queries, or the packed b of one product, or a task of
// low-rank updates. A batch touches only what it needs.
struct AttentionScratch {
  std::byte* base = nullptr;  // 64-byte aligned, num_threads · bytes_per_thread
  size_t bytes_per_thread = 0;
};
size_t attention_scratch_bytes(uint32_t max_tokens);  // per thread

struct HostLaunch {
  DType activation = DType::kF32;  // kF32 or kBF16
  uint32_t num_threads = 1;
  Bf16Products bf16_products = Bf16Products::kWidened;  // REQUIRES: the CPU has them
  AttentionScratch scratch = {};  // of attention, batched GEMMs and low-rank updates
};

// A bf16 value in memory: the upper half of an f32.
struct Bf16 {
  uint16_t bits = 0;
};

// Runs body(begin, end) over a partition of [0, count) on the OpenMP pool, which oneDNN also uses.
// Runs it on the caller alone if a thread's share would be less than min_share. Never uses only
// some of the threads: libgomp ends the surplus threads of a smaller team and must start them
// again.
template <class Body>
void parallel_rows(const HostLaunch& launch, uint32_t count, uint32_t min_share, Body&& body) {
  if (launch.num_threads <= 1 || count < 2 * min_share) {
    if (count > 0) body(0u, count);
    return;
  }
  const uint32_t threads = launch.num_threads;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (uint32_t t = 0; t < threads; ++t) {
    const auto begin = static_cast<uint32_t>(uint64_t{count} * t / threads);
    const auto end = static_cast<uint32_t>(uint64_t{count} * (t + 1) / threads);
    if (begin < end) body(begin, end);
  }
}

// Calls body(slot, first_row, end_row) for the part of each range that lies in [begin, end).
template <class Body>
void for_each_range(std::span<const RowRange> ranges, uint32_t begin, uint32_t end, Body&& body) {
  auto range = std::partition_point(ranges.begin(), ranges.end(), [begin](const RowRange& r) {
    return r.first_row + r.num_rows <= begin;
  });
  for (; range != ranges.end() && range->first_row < end; ++range) {
    const uint32_t first = std::max(begin, range->first_row);
    const uint32_t last = std::min(end, range->first_row + range->num_rows);
    if (first < last) body(range->slot, first, last);
  }
}

}  // namespace itif::kernels::host
