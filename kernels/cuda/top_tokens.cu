// Log-softmax over a vocabulary and its best tokens: a block a row. Each thread knows the best of the tokens that
// are its own; the best of all is taken, and its thread looks for its next.
#include "kernels/cuda/rows.h"
#include "kernels/cuda/shared_memory.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kWarp;

struct Best {
  float logit = -INFINITY;
  int32_t token = -1;
};
// Of equals the lowest token; a NaN is never better, -∞ is nobody's.
__device__ inline bool is_better(const Best& a, const Best& b) {
  if (a.logit != b.logit) return a.logit > b.logit;
  return a.token >= 0 && (b.token < 0 || a.token < b.token);
}
__device__ inline Best better(const Best& a, const Best& b) {
  return is_better(a, b) ? a : b;
}
__device__ inline Best best_of_warp(Best best) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    best = better(best, {__shfl_xor_sync(kAllLanes, best.logit, distance),
                         __shfl_xor_sync(kAllLanes, best.token, distance)});
  return best;
}

__device__ Best best_of_thread(const float* logits, uint32_t vocab) {
  Best best;
  for (uint32_t token = threadIdx.x; token < vocab; token += kThreads)
    if (logits[token] > best.logit) best = {logits[token], static_cast<int32_t>(token)};
  return best;
}

// The same value for all threads of the block.
__device__ float block_max(float value, float* scratch) {
  value = warp_max(value);
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  for (uint32_t warp = 0; warp < kWarps; ++warp) value = fmaxf(value, scratch[warp]);
  __syncthreads();
  return value;
}
__device__ float block_sum(float value, float* scratch) {
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = 0;
  for (uint32_t warp = 0; warp < kWarps; ++warp) value += scratch[warp];
  __syncthreads();
  return value;
}

__global__ void top_tokens_kernel(TopTokens args, const BannedTokens* banned_of,
                                  const int32_t* banned) {
  SharedMemory shared;
  float* scratch = shared.take<float>(kWarps);
  Best* of_warps = shared.take<Best>(kWarps);
  const uint32_t row = blockIdx.x;
  float* logits = args.logits + size_t{row} * args.vocab;

  float most = -INFINITY;
  for (uint32_t token = threadIdx.x; token < args.vocab; token += kThreads)
    most = fmaxf(most, logits[token]);
  most = block_max(most, scratch);
  float sum = 0;
  for (uint32_t token = threadIdx.x; token < args.vocab; token += kThreads)
    sum += expf(logits[token] - most);
  const float log_sum = logf(block_sum(sum, scratch));

  if (banned_of != nullptr) {
    const BannedTokens of = banned_of[row];
    for (uint32_t i = threadIdx.x; i < of.count; i += kThreads)
      logits[banned[of.first + i]] = -INFINITY;
    __syncthreads();
  }

  Best mine = best_of_thread(logits, args.vocab);
  for (uint32_t i = 0; i < args.count; ++i) {
    const Best of_warp = best_of_warp(mine);
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = of_warp;
    __syncthreads();
    Best best;
    for (uint32_t warp = 0; warp < kWarps; ++warp) best = better(of_warps[warp], best);
    if (threadIdx.x == 0) {
      const size_t at = size_t{row} * args.count + i;
      args.tokens[at] = best.token;
      args.log_probabilities[at] = best.token < 0 ? -INFINITY : best.logit - most - log_sum;
    }
    if (i + 1 < args.count && best.token >= 0 &&
        static_cast<uint32_t>(best.token) % kThreads == threadIdx.x) {
      logits[best.token] = -INFINITY;  // nobody else reads it
      mine = best_of_thread(logits, args.vocab);
    }
    __syncthreads();
  }
}

}  // namespace

void top_tokens(const Launcher& launch, const TopTokens& args, const BannedTokens* banned_of,
                const int32_t* banned) {
  launch({.blocks = dim3(args.rows),
          .threads = dim3(kThreads),
          .shared_bytes = shared_bytes<float>(kWarps) + shared_bytes<Best>(kWarps)},
         top_tokens_kernel, args, banned_of, banned);
}

}  // namespace itif::kernels::cuda
