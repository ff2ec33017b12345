// Distributes the attention tasks of a batch among the threads and picks the fastest kernel of this
// CPU.
#include "kernels/host/launch.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "kernels/host/attention_bf16.h"
#include "kernels/host/attention_f32.h"
#include "kernels/host/attention_tasks.h"
#include "kernels/host/low_rank.h"

namespace itif::kernels::host {
namespace {

void run_tasks(const Attention& args, uint32_t num_threads, AttentionTaskFunction run,
               std::atomic<uint64_t>& next, std::byte* scratch) {
  AttentionTaskCursor cursor(args, num_threads);
  AttentionTask task;
  while (cursor.seek(next.fetch_add(1, std::memory_order_relaxed), task)) run(args, task, scratch);
}

AttentionTaskFunction choose_task(const HostLaunch& launch) {
  if (launch.activation == DType::kBF16) {
    if (launch.bf16_products == Bf16Products::kAmx) return attention_amx_bf16_task();
    if (launch.bf16_products == Bf16Products::kAvx512) return attention_avx512_bf16_task();
  }
  return attention_f32_task(launch.activation);
}

}  // namespace

size_t attention_scratch_bytes(uint32_t max_tokens) {
  const size_t bytes = std::max({attention_f32_scratch_bytes(max_tokens),
                                 attention_bf16_scratch_bytes(max_tokens), kLowRankScratchBytes});
  return (bytes + 4095) / 4096 * 4096;
}

void run(const Attention& args, const HostLaunch& launch) noexcept {
  CHECK(args.head_size > 0 && args.head_size <= kMaxHeadSize);
  uint64_t rows = 0;
  for (const SegmentRows& segment : args.segments) rows += segment.num_rows;
  if (rows == 0) return;
  const AttentionTaskFunction task = choose_task(launch);
  std::atomic<uint64_t> next{0};
  // Waking the pool for fewer than some thousand scores costs more than it saves.
  if (launch.num_threads <= 1 || rows * args.num_heads < 64) {
    run_tasks(args, 1, task, next, launch.scratch.base);
    return;
  }
  const uint32_t threads = launch.num_threads;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (uint32_t t = 0; t < threads; ++t)
    run_tasks(args, threads, task, next, launch.scratch.base + t * launch.scratch.bytes_per_thread);
}

}  // namespace itif::kernels::host
