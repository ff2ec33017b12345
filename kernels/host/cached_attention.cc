// Attention of one query per row over blocks of keys and values, in one pass. The softmax is
// rescaled as larger scores appear, so that no memory grows with the length.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/cached_attention.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

template <class T>
HWY_INLINE float Dot(const float* q, const T* k, size_t size) {
  const hn::ScalableTag<float> d;
  auto sum = hn::Zero(d);
  ForLanes(d, size, [&](auto part, size_t i, size_t n) HWY_ATTR {
    sum = hn::MulAdd(part.load(d, q + i, n), part.load(d, k + i, n), sum);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Computes one head of one row.
template <class T>
void AttendOne(const CachedAttention& args, uint32_t row, uint32_t head) {
  const hn::ScalableTag<float> d;
  const KvTable& table = args.tables[row];
  if (table.num_tokens == 0) return;
  const KvPool& pool = args.pool;
  const size_t size = args.head_size;
  const size_t shift = size_t{head} * size;
  HWY_ALIGN float query[kMaxHeadSize];
  HWY_ALIGN float sum[kMaxHeadSize];
  HWY_ALIGN float weights[kMaxKvBlockTokens + hn::MaxLanes(d)];
  const T* q = static_cast<const T*>(args.query) + row * args.query_stride + shift;
  ForLanes(d, size, [&](auto part, size_t i, size_t n) HWY_ATTR {
    part.store(d, hn::Mul(part.load(d, q + i, n), hn::Set(d, args.scale)), query + i, n);
    part.store(d, hn::Zero(d), sum + i, n);
  });
  float most = -std::numeric_limits<float>::infinity();
  float total = 0;
  for (uint32_t done = 0; done < table.num_tokens; done += pool.block_tokens) {
    const uint32_t block = args.blocks[table.first + done / pool.block_tokens];
    const uint32_t count = std::min(pool.block_tokens, table.num_tokens - done);
    const uint32_t first = block * pool.block_tokens;
    const T* base = reinterpret_cast<const T*>(pool.base);
    const T* keys = base + pool.offset(first, args.layer, 0) + shift;
    const T* values = base + pool.offset(first, args.layer, 1) + shift;
    float block_most = most;
    for (size_t i = 0; i < count; ++i) {
      weights[i] = Dot(query, keys + i * pool.hidden, size);
      block_most = std::max(block_most, weights[i]);
    }
    if (block_most > most) {
      const float correction = std::exp(most - block_most);
      total *= correction;
      ForLanes(d, size, [&](auto part, size_t i, size_t n) HWY_ATTR {
        part.store(d, hn::Mul(part.load(d, sum + i, n), hn::Set(d, correction)), sum + i, n);
      });
      most = block_most;
    }
    for (size_t i = 0; i < count; i += hn::Lanes(d))
      hn::StoreU(Exp(d, hn::Sub(hn::LoadU(d, weights + i), hn::Set(d, most))), d, weights + i);
    for (size_t token = 0; token < count; ++token) {
      const T* value = values + token * pool.hidden;
      const auto weight = hn::Set(d, weights[token]);
      total += weights[token];
      ForLanes(d, size, [&](auto part, size_t i, size_t n) HWY_ATTR {
        part.store(d, hn::MulAdd(weight, part.load(d, value + i, n), part.load(d, sum + i, n)),
                   sum + i, n);
      });
    }
  }
  T* out = static_cast<T*>(args.out) + size_t{row} * args.num_heads * size + shift;
  const auto inverse = hn::Set(d, 1.0f / total);
  ForLanes(d, size, [&](auto part, size_t i, size_t n) HWY_ATTR {
    part.store(d, hn::Mul(part.load(d, sum + i, n), inverse), out + i, n);
  });
}

void CachedAttentionF32(const CachedAttention& args, uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i)
    AttendOne<float>(args, i / args.num_heads, i % args.num_heads);
}
void CachedAttentionBf16(const CachedAttention& args, uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i)
    AttendOne<Bf16>(args, i / args.num_heads, i % args.num_heads);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(CachedAttentionF32);
HWY_EXPORT(CachedAttentionBf16);

void run(const CachedAttention& args, const HostLaunch& launch) noexcept {
  CHECK(args.pool.block_tokens <= kMaxKvBlockTokens);
  const auto run = launch.activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(CachedAttentionBf16)
                                                     : HWY_DYNAMIC_DISPATCH(CachedAttentionF32);
  const auto heads = static_cast<uint32_t>(args.tables.size()) * args.num_heads;
  // A thread's share of at least some 10 µs is worth waking it.
  constexpr uint64_t kMinProducts = 1u << 16;
  uint64_t tokens = 0;
  for (const KvTable& table : args.tables) tokens += table.num_tokens;
  const uint64_t of_a_head = 2 * tokens * args.head_size / std::max<size_t>(1, args.tables.size());
  const auto least = static_cast<uint32_t>(kMinProducts / std::max<uint64_t>(1, of_a_head) + 1);
  parallel_rows(launch, heads, least, [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
