// Distributes the tasks of low-rank updates among the threads and picks the fastest kernel of this
// CPU.
#include "kernels/host/low_rank.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "kernels/host/launch.h"

namespace itif::kernels::host {
namespace {

LowRankFunction choose_task(const HostLaunch& launch) {
  if (launch.activation == DType::kBF16) {
    if (launch.bf16_products == Bf16Products::kAmx) return low_rank_amx_bf16_task();
    if (launch.bf16_products == Bf16Products::kAvx512) return low_rank_avx512_bf16_task();
  }
  return low_rank_f32_task(launch.activation);
}

uint64_t tasks_of(const AddLowRank& args, const AdapterRows& adapter) {
  const uint64_t blocks = (uint64_t{adapter.num_rows} + kLowRankRows - 1) / kLowRankRows;
  return blocks * args.num_modules;
}

}  // namespace

void run(const AddLowRank& args, const HostLaunch& launch) noexcept {
  CHECK(launch.scratch.bytes_per_thread >= kLowRankScratchBytes);
  uint64_t num_tasks = 0;
  for (const AdapterRows& adapter : args.adapters) num_tasks += tasks_of(args, adapter);
  if (num_tasks == 0) return;
  const LowRankFunction run = choose_task(launch);
  const uint32_t columns = args.width / args.num_modules;
  std::atomic<uint64_t> next{0};
  const auto work = [&](uint32_t thread) {
    std::byte* const own = launch.scratch.base + thread * launch.scratch.bytes_per_thread;
    uint64_t before = 0;  // tasks of earlier adapters
    auto adapter = args.adapters.begin();
    for (;;) {
      const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
      while (adapter != args.adapters.end() && number >= before + tasks_of(args, *adapter))
        before += tasks_of(args, *adapter++);
      if (adapter == args.adapters.end()) return;
      const uint64_t index = number - before;
      const auto done = static_cast<uint32_t>(index / args.num_modules * kLowRankRows);
      const auto part = static_cast<uint32_t>(index % args.num_modules);
      const LowRankModule& module = adapter->modules[args.first_module + part];
      if (module.rank == 0) continue;
      run(args,
          {.module = module,
           .first_column = part * columns,
           .num_columns = columns,
           .first_row = adapter->first_row + done,
           .num_rows = std::min(kLowRankRows, adapter->num_rows - done)},
          own);
    }
  };
  if (launch.num_threads <= 1 || num_tasks == 1) return work(0);
#pragma omp parallel for num_threads(launch.num_threads) schedule(static, 1)
  for (uint32_t t = 0; t < launch.num_threads; ++t) work(t);
}

}  // namespace itif::kernels::host
