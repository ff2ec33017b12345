// Distributes the products of a batched GEMM among the threads and picks the fastest kernel of this
// CPU.
#include "kernels/host/batched_gemm.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "kernels/host/launch.h"

namespace itif::kernels::host {
namespace {

constexpr uint32_t kMinRows = 96;  // per task: packing b must not outweigh multiplying by it
constexpr uint32_t kTasksPerThread = 4;

BatchedGemmFunction choose_task(const HostLaunch& launch) {
  if (launch.activation == DType::kBF16) {
    if (launch.bf16_products == Bf16Products::kAmx) return batched_gemm_amx_bf16_task();
    if (launch.bf16_products == Bf16Products::kAvx512) return batched_gemm_avx512_bf16_task();
  }
  return batched_gemm_f32_task(launch.activation);
}

// Products of more rows than the result are split.
uint32_t rows_of_task(uint64_t rows, uint32_t num_threads) {
  if (num_threads <= 1) return UINT32_MAX;
  const uint64_t share = rows / (uint64_t{num_threads} * kTasksPerThread) + 1;
  return static_cast<uint32_t>(std::clamp<uint64_t>((share + 15) / 16 * 16, kMinRows, 1u << 30));
}

// Scratch of a thread, enough for all kernels: packed b, a tile of rows of a, their sums.
size_t scratch_bytes(size_t n, size_t k) {
  const auto round_up = [](size_t count, size_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
  };
  const size_t n16 = round_up(n, 16), n32 = round_up(n, 32), k32 = round_up(k, 32);
  return std::max((n16 * k + 6 * (k + n16)) * sizeof(float),
                  (n32 + 16) * k32 * sizeof(uint16_t) + 16 * n32 * sizeof(float));
}

}  // namespace

void run(const BatchedGemm& args, const HostLaunch& launch) noexcept {
  uint64_t rows = 0;
  for (const MatrixBatch& batch : args.batches) {
    CHECK(scratch_bytes(batch.n, batch.k) <= launch.scratch.bytes_per_thread);
    rows += uint64_t{batch.m} * batch.count;
  }
  if (rows == 0) return;
  const BatchedGemmFunction run = choose_task(launch);
  const uint32_t threads = rows < 64 ? 1 : launch.num_threads;
  const uint32_t block = rows_of_task(rows, threads);
  std::atomic<uint64_t> next{0};
  const auto work = [&](uint32_t thread) {
    std::byte* const own = launch.scratch.base + thread * launch.scratch.bytes_per_thread;
    uint64_t before = 0;  // tasks of earlier batches
    size_t index = 0;
    for (uint64_t number; index < args.batches.size();) {
      number = next.fetch_add(1, std::memory_order_relaxed);
      for (; index < args.batches.size(); ++index) {
        const MatrixBatch& batch = args.batches[index];
        const uint64_t blocks = (uint64_t{batch.m} + block - 1) / block;
        if (number < before + blocks * batch.count) {
          const uint64_t product = (number - before) / blocks;
          const auto first = static_cast<uint32_t>((number - before) % blocks * block);
          run(args,
              {.a = batch.a + product * batch.m * batch.k,
               .b = batch.b + product * batch.n * batch.k,
               .out = batch.out + product * batch.m * batch.n,
               .m_begin = first,
               .m_end = batch.m - first > block ? first + block : batch.m,
               .n = batch.n,
               .k = batch.k},
              own);
          break;
        }
        before += blocks * batch.count;
      }
    }
  };
  if (threads <= 1) return work(0);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (uint32_t t = 0; t < threads; ++t) work(t);
}

}  // namespace itif::kernels::host
