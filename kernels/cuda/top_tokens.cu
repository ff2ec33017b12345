// Log-softmax over a vocabulary and its best tokens, in two launches. In the first, each block
// reads a slice of a row once and holds it in registers. In the second, each block merges the
// slices of a row; a row of one slice needs none. The size of the vocabulary alone determines the
// slices, and so the order of sums.
#include "base/check.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/shared_memory.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kWarp;
constexpr uint32_t kOfThread = 16;
constexpr uint32_t kMaxOfSlice = kThreads * kOfThread;

struct Best {
  float logit = -INFINITY;
  int32_t token = -1;
};
// Ties go to the lowest token. A NaN is never better. -∞ belongs to no token.
__device__ inline bool is_better(const Best& a, const Best& b) {
  if (a.logit != b.logit) return a.logit > b.logit;
  return a.token >= 0 && (b.token < 0 || a.token < b.token);
}
__device__ inline Best best_of_warp(Best best) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const Best other = {__shfl_xor_sync(kAllLanes, best.logit, distance),
                        __shfl_xor_sync(kAllLanes, best.token, distance)};
    if (is_better(other, best)) best = other;
  }
  return best;
}
// The factor that rescales Σ exp(x − most) from `most`, which may be -∞, to `largest`.
__device__ inline float weight_of(float most, float largest) {
  return most == -INFINITY ? 0 : expf(most - largest);
}

// The slices of a row. Once its logits are in registers, the first launch overwrites them with the
// slice's result, which the second launch reads.
struct Slices {
  uint32_t count, length;

  explicit Slices(uint32_t vocab)
      : count(div_up(vocab, kMaxOfSlice)), length(div_up(vocab, count)) {}
};
// A slice's result: most, sum, then the logits of its best tokens, best first, then these tokens.
constexpr uint32_t kFoundAt = 2;
static_assert(kFoundAt + 2 * kMaxTopTokens <= kMaxOfSlice / 4,
              "a slice's result must fit into the slice");

__device__ inline float* logits_of(const TopTokens& args, const uint32_t* chosen, uint32_t row) {
  return args.logits + size_t{chosen == nullptr ? row : chosen[row]} * args.vocab;
}
__device__ inline void write_found(const TopTokens& args, uint32_t row, uint32_t rank,
                                   const Best& best, float most, float log_sum) {
  const size_t at = size_t{row} * args.count + rank;
  args.tokens[at] = best.token;
  args.log_probabilities[at] = best.token < 0 ? -INFINITY : best.logit - most - log_sum;
}

__global__ void __launch_bounds__(kThreads)
    top_tokens_kernel(TopTokens args, Slices slices, const uint32_t* chosen,
                      const BannedTokens* banned_of, const int32_t* banned) {
  SharedMemory shared;
  float* max_of = shared.take<float>(kWarps);
  float* sum_of = shared.take<float>(kWarps);
  Best* bound_of = shared.take<Best>(kWarps);
  uint32_t* num_candidates = shared.take<uint32_t>(1);
  float* candidates = shared.take<float>(kMaxOfSlice);
  uint16_t* slice_indices = shared.take<uint16_t>(kMaxOfSlice);  // in the slice
  const uint32_t row = blockIdx.x, first = blockIdx.y * slices.length;
  const uint32_t length = min(slices.length, args.vocab - first);
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  float* logits = logits_of(args, chosen, row) + first;

  float mine[kOfThread];
  float most = -INFINITY;
#pragma unroll
  for (uint32_t i = 0; i < kOfThread; ++i) {
    const uint32_t at = i * kThreads + threadIdx.x;
    mine[i] = at < length ? logits[at] : -INFINITY;
  }
  const BannedTokens row_banned = banned_of == nullptr ? BannedTokens{} : banned_of[row];
  const auto ban = [&] {
#pragma unroll 1
    for (uint32_t b = 0; b < row_banned.count; ++b) {
      const uint32_t at = static_cast<uint32_t>(banned[row_banned.first + b]) - first;
      if (at >= length || at % kThreads != threadIdx.x) continue;
#pragma unroll
      for (uint32_t i = 0; i < kOfThread; ++i)
        if (i == at / kThreads) mine[i] = -INFINITY;
    }
  };
  if (row_banned.renormalizes) ban();
#pragma unroll
  for (uint32_t i = 0; i < kOfThread; ++i) most = fmaxf(most, mine[i]);
  most = warp_max(most);
  const float shift = most == -INFINITY ? 0 : most;
  float sum = 0;
#pragma unroll
  for (uint32_t i = 0; i < kOfThread; ++i) sum += expf(mine[i] - shift);
  sum = warp_sum(sum);

  if (!row_banned.renormalizes) ban();

  // `least` becomes a lower bound of the args.count best. In each warp, `wanted` tokens are at
  // least as good as the wanted-th best of its lanes' best tokens. In all warps together,
  // args.count are as good as the least of those.
  Best best;
#pragma unroll
  for (uint32_t i = 0; i < kOfThread; ++i)
    if (mine[i] > best.logit)
      best = {mine[i], static_cast<int32_t>(first + i * kThreads + threadIdx.x)};
  const Best of_lane = best;
  Best least;
  const uint32_t wanted = (args.count + kWarps - 1) / kWarps;
#pragma unroll 1
  for (uint32_t i = 0; i < wanted; ++i) {
    least = best_of_warp(best);
    if (best.token == least.token) best = {};
  }
  if (lane == 0) {
    max_of[warp] = most;
    sum_of[warp] = sum;
    bound_of[warp] = least;
  }
  if (threadIdx.x == 0) *num_candidates = 0;
  __syncthreads();
  least = bound_of[0];
  for (uint32_t w = 1; w < kWarps; ++w)
    if (is_better(least, bound_of[w])) least = bound_of[w];
  if (!is_better(least, of_lane)) {
#pragma unroll
    for (uint32_t i = 0; i < kOfThread; ++i) {
      const Best one = {mine[i], static_cast<int32_t>(first + i * kThreads + threadIdx.x)};
      if (one.logit > -INFINITY && !is_better(least, one)) {
        const uint32_t at = atomicAdd(num_candidates, 1u);
        candidates[at] = one.logit;
        slice_indices[at] = static_cast<uint16_t>(i * kThreads + threadIdx.x);
      }
    }
  }
  __syncthreads();  // candidates are in any order: each counts its own rank
  most = -INFINITY;
  for (uint32_t w = 0; w < kWarps; ++w) most = fmaxf(most, max_of[w]);
  sum = 0;
  for (uint32_t w = 0; w < kWarps; ++w) sum += sum_of[w] * weight_of(max_of[w], most);
  const bool is_whole = slices.count == 1;
  const float log_sum = is_whole ? logf(sum) : 0;
  if (!is_whole && threadIdx.x == 0) {
    logits[0] = most;
    logits[1] = sum;
  }
  const auto found = [&](uint32_t rank, const Best& one) {
    if (is_whole) return write_found(args, row, rank, one, most, log_sum);
    logits[kFoundAt + rank] = one.logit;
    reinterpret_cast<int32_t*>(logits)[kFoundAt + args.count + rank] = one.token;
  };
  const uint32_t of_all = *num_candidates;
  for (uint32_t c = threadIdx.x; c < of_all; c += kThreads) {
    const float logit = candidates[c];
    const uint32_t at = slice_indices[c];
    uint32_t rank = 0;
    for (uint32_t other = 0; other < of_all; ++other)
      rank +=
          candidates[other] > logit || (candidates[other] == logit && slice_indices[other] < at);
    if (rank < args.count) found(rank, {logit, static_cast<int32_t>(first + at)});
  }
  for (uint32_t rank = of_all + threadIdx.x; rank < args.count; rank += kThreads) found(rank, {});
}

// A token's rank is the number of better tokens in all slices. A slice's tokens are sorted, so
// that a binary search counts them. Slices ascend by token, which breaks ties.
__global__ void __launch_bounds__(kThreads)
    join_slices_kernel(TopTokens args, Slices slices, const uint32_t* chosen) {
  const uint32_t row = blockIdx.x;
  const float* of_row = logits_of(args, chosen, row);
  float most = -INFINITY;
  for (uint32_t s = 0; s < slices.count; ++s) most = fmaxf(most, of_row[size_t{s} * slices.length]);
  float sum = 0;
  for (uint32_t s = 0; s < slices.count; ++s) {
    const float* slice = of_row + size_t{s} * slices.length;
    sum += slice[1] * weight_of(slice[0], most);
  }
  const float log_sum = logf(sum);
  for (uint32_t i = threadIdx.x; i < slices.count * args.count; i += kThreads) {
    const uint32_t mine = i / args.count;
    uint32_t rank = i % args.count;
    const float* found = of_row + mine * slices.length + kFoundAt;
    const Best one = {found[rank], reinterpret_cast<const int32_t*>(found)[args.count + rank]};
    for (uint32_t s = 0; s < slices.count && rank < args.count; ++s) {
      if (s == mine) continue;
      const float* others = of_row + s * slices.length + kFoundAt;
      uint32_t begin = 0, end = args.count;
      while (begin < end) {
        const uint32_t middle = (begin + end) / 2;
        const float other = others[middle];
        if (other > one.logit || (other == one.logit && s < mine))
          begin = middle + 1;
        else
          end = middle;
      }
      rank += begin;
    }
    if (rank < args.count) write_found(args, row, rank, one, most, log_sum);
  }
}

}  // namespace

void run(const TopTokens& args, Plan& plan) {
  CHECK(args.count > 0 && args.count <= kMaxTopTokens);
  const uint32_t* chosen = plan.put(args.chosen);
  const BannedTokens* banned_of = plan.put(args.banned_of);
  const int32_t* banned = plan.put_with_capacity(args.banned);
  const Launcher& launch = plan.launcher(chosen, banned_of, banned);
  const Slices slices(args.vocab);
  launch({.blocks = dim3(args.rows, slices.count),
          .threads = dim3(kThreads),
          .shared_bytes = 2 * shared_bytes<float>(kWarps) + shared_bytes<Best>(kWarps) +
                          shared_bytes<uint32_t>(1) + shared_bytes<float>(kMaxOfSlice) +
                          shared_bytes<uint16_t>(kMaxOfSlice)},
         top_tokens_kernel, args, slices, chosen, banned_of, banned);
  if (slices.count > 1)
    launch({.blocks = dim3(args.rows), .threads = dim3(kThreads)}, join_slices_kernel, args, slices,
           chosen);
}

}  // namespace itif::kernels::cuda
