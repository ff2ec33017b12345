// One head of one matrix of scores (attention_tasks.h) in f32 registers.
//
// K is packed into panels of one vector of keys, [panel][head_size][lanes]. A tile of queries then
// multiplies it with broadcasts and whole-vector loads only. V is packed into rows of whole
// vectors. Score rows are kept whole: six of them stay in the L1 cache up to about a thousand keys,
// and they need no rescaling, as running maxima would.
#include "kernels/host/attention_f32.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/attention_f32.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/math-inl.h"

#ifndef ITIF_ATTENTION_F32_CONSTANTS
#define ITIF_ATTENTION_F32_CONSTANTS
namespace itif::kernels::host {
constexpr size_t kTileQueries = 6;
constexpr size_t kMaxLanes = 16;
constexpr size_t round_up(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
}  // namespace itif::kernels::host
#endif

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, kMaxLanes>;
using V = hn::Vec<D>;
// Vectors per row of a tile: with six queries, 24 of AVX-512's 32 registers, 12 of AVX2's 16.
constexpr size_t kTileVectors = hn::MaxLanes(D()) >= 16 ? 4 : 2;

template <class T>
HWY_INLINE void WidenRow(const T* from, size_t count, float scale, float* to) {
  const D d;
  const auto factor = hn::Set(d, scale);
  ForLanes(d, count, [&](auto part, size_t i, size_t n) HWY_ATTR {
    part.store(d, hn::Mul(part.load(d, from + i, n), factor), to + i, n);
  });
}

// scores[q][panel·lanes …] = queries[q] · K for Q queries and P panels.
template <size_t Q, size_t P>
HWY_INLINE void ScoreTile(const float* queries, size_t head_size, const float* keys, float* scores,
                          size_t stride) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const size_t panel = head_size * lanes;
  V sums[Q][P];
  for (auto& row : sums)
    for (auto& sum : row) sum = hn::Zero(d);
  for (size_t i = 0; i < head_size; ++i) {
    V k[P];
    for (size_t p = 0; p < P; ++p) k[p] = hn::LoadU(d, keys + p * panel + i * lanes);
    for (size_t q = 0; q < Q; ++q) {
      const auto value = hn::Set(d, queries[q * head_size + i]);
      for (size_t p = 0; p < P; ++p) sums[q][p] = hn::MulAdd(value, k[p], sums[q][p]);
    }
  }
  for (size_t q = 0; q < Q; ++q)
    for (size_t p = 0; p < P; ++p) hn::StoreU(sums[q][p], d, scores + q * stride + p * lanes);
}

// Turns `length` scores into unnormalised probabilities, with zeros up to `stride`. Returns 1 /
// their sum.
HWY_INLINE float SoftmaxRow(float* scores, size_t length, size_t stride) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  for (size_t j = length; j < stride; ++j) scores[j] = -1e30f;
  auto largest = hn::LoadU(d, scores);
  for (size_t j = lanes; j < stride; j += lanes)
    largest = hn::Max(largest, hn::LoadU(d, scores + j));
  largest = hn::MaxOfLanes(d, largest);
  auto sum = hn::Zero(d);
  for (size_t j = 0; j < stride; j += lanes) {
    const auto p = Exp(d, hn::Sub(hn::LoadU(d, scores + j), largest));
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, scores + j);
  }
  return 1.0f / hn::GetLane(hn::SumOfLanes(d, sum));
}

// out[q][P vectors] = Σ_j probabilities[q][j] · values[j], times inverse[q].
template <size_t Q, size_t P>
HWY_INLINE void ValueTile(const float* probabilities, size_t stride, const float* values,
                          size_t value_stride, size_t length, const float* inverse, float* out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sums[Q][P];
  for (auto& row : sums)
    for (auto& sum : row) sum = hn::Zero(d);
  for (size_t j = 0; j < length; ++j) {
    V v[P];
    for (size_t p = 0; p < P; ++p) v[p] = hn::LoadU(d, values + j * value_stride + p * lanes);
    for (size_t q = 0; q < Q; ++q) {
      const auto probability = hn::Set(d, probabilities[q * stride + j]);
      for (size_t p = 0; p < P; ++p) sums[q][p] = hn::MulAdd(probability, v[p], sums[q][p]);
    }
  }
  for (size_t q = 0; q < Q; ++q) {
    const auto factor = hn::Set(d, inverse[q]);
    for (size_t p = 0; p < P; ++p)
      hn::StoreU(hn::Mul(sums[q][p], factor), d, out + q * kMaxHeadSize + p * lanes);
  }
}

struct HeadView {
  size_t length, head_size, stride, value_stride;
  const float* keys;    // [stride / lanes][head_size][lanes]
  const float* values;  // [length][value_stride]
  float* scores;        // [kTileQueries][stride]
  const AttentionMask* mask;
};

// Computes out [Q][kMaxHeadSize] of Q packed and scaled queries.
template <size_t Q>
HWY_NOINLINE void QueryTile(const HeadView& head, const float* queries,
                            const AttentionMask::Keys* keys, float* out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t j = 0;
  for (; j + kTileVectors * lanes <= head.stride; j += kTileVectors * lanes)
    ScoreTile<Q, kTileVectors>(queries, head.head_size, head.keys + j * head.head_size,
                               head.scores + j, head.stride);
  for (; j < head.stride; j += lanes)
    ScoreTile<Q, 1>(queries, head.head_size, head.keys + j * head.head_size, head.scores + j,
                    head.stride);
  float inverse[Q];
  for (size_t q = 0; q < Q; ++q) {
    head.mask->apply(keys[q], head.scores + q * head.stride);
    inverse[q] = SoftmaxRow(head.scores + q * head.stride, head.length, head.stride);
  }
  size_t c = 0;
  for (; c + kTileVectors * lanes <= head.value_stride; c += kTileVectors * lanes)
    ValueTile<Q, kTileVectors>(head.scores, head.stride, head.values + c, head.value_stride,
                               head.length, inverse, out + c);
  for (; c < head.value_stride; c += lanes)
    ValueTile<Q, 1>(head.scores, head.stride, head.values + c, head.value_stride, head.length,
                    inverse, out + c);
}

// Replaces infinities and NaNs by the largest number. A masked probability is 0, and 0 · ∞ would
// carry one request's overflow into others of its score matrix.
HWY_INLINE void MakeFinite(float* row, size_t count) {
  const D d;
  const auto largest = hn::Set(d, std::numeric_limits<float>::max());
  ForLanes(d, count, [&](auto part, size_t i, size_t n) HWY_ATTR {
    const auto value = part.load(d, row + i, n);
    part.store(d, hn::IfThenElse(hn::Le(hn::Abs(value), largest), value, largest), row + i, n);
  });
}

template <class T>
void AttentionTaskOf(const Attention& args, const AttentionTask& task, std::byte* scratch) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const size_t hidden = size_t{args.num_heads} * args.head_size;
  const size_t head_size = args.head_size;
  const T* q_rows =
      static_cast<const T*>(args.qkv) + task.first_row * 3 * hidden + task.head * head_size;
  const T* k_rows = q_rows + hidden;
  const T* v_rows = k_rows + hidden;

  HeadView head{};
  head.length = task.length;
  head.head_size = head_size;
  head.stride = round_up(task.length, lanes);
  head.value_stride = round_up(head_size, lanes);
  float* keys = reinterpret_cast<float*>(scratch);
  float* values = keys + head.stride * head_size;
  head.keys = keys;
  head.values = values;
  head.scores = values + head.length * head.value_stride;
  AttentionMask mask(args, task);
  head.mask = &mask;

  HWY_ALIGN float rows[kTileQueries * kMaxHeadSize];
  for (size_t j = 0; j < head.stride; j += lanes) {  // one panel: `lanes` keys, transposed
    float* panel = keys + j * head_size;
    for (size_t lane = 0; lane < lanes; ++lane) {
      // Lanes past the last key repeat it: their scores are discarded, but must not be NaN.
      WidenRow(k_rows + std::min(j + lane, head.length - 1) * 3 * hidden, head_size, 1.0f, rows);
      for (size_t i = 0; i < head_size; ++i) panel[i * lanes + lane] = rows[i];
    }
  }
  for (size_t j = 0; j < head.length; ++j) {
    float* row = values + j * head.value_stride;
    WidenRow(v_rows + j * 3 * hidden, head_size, 1.0f, row);
    if (mask.is_shared()) MakeFinite(row, head_size);
    for (size_t i = head_size; i < head.value_stride; ++i) row[i] = 0.0f;
  }

  HWY_ALIGN float out[kTileQueries * kMaxHeadSize];
  for (size_t q = task.query_begin; q < task.query_end;) {
    const size_t left = task.query_end - q;
    const size_t count = left >= kTileQueries ? kTileQueries : left >= 2 ? 2 : 1;
    AttentionMask::Keys query_keys[kTileQueries];
    for (size_t i = 0; i < count; ++i) {
      WidenRow(q_rows + (q + i) * 3 * hidden, head_size, args.scale, rows + i * head_size);
      query_keys[i] = mask.keys_of(q + i);
    }
    if (count == kTileQueries)
      QueryTile<kTileQueries>(head, rows, query_keys, out);
    else if (count == 2)
      QueryTile<2>(head, rows, query_keys, out);
    else
      QueryTile<1>(head, rows, query_keys, out);
    for (size_t i = 0; i < count; ++i) {
      if (query_keys[i].empty()) continue;  // padding
      T* to = static_cast<T*>(args.out) + (task.first_row + q + i) * hidden + task.head * head_size;
      ForLanes(d, head_size, [&](auto part, size_t c, size_t n) HWY_ATTR {
        part.store(d, part.load(d, out + i * kMaxHeadSize + c, n), to + c, n);
      });
    }
    q += count;
  }
}

void AttentionTaskF32(const Attention& args, const AttentionTask& task, std::byte* scratch) {
  AttentionTaskOf<float>(args, task, scratch);
}
void AttentionTaskBf16(const Attention& args, const AttentionTask& task, std::byte* scratch) {
  AttentionTaskOf<Bf16>(args, task, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(AttentionTaskF32);
HWY_EXPORT(AttentionTaskBf16);

AttentionTaskFunction attention_f32_task(DType activation) {
  return activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(AttentionTaskBf16)
                                    : HWY_DYNAMIC_DISPATCH(AttentionTaskF32);
}

size_t attention_f32_scratch_bytes(uint32_t max_tokens) {
  const size_t keys = round_up(max_tokens, kMaxLanes);
  return keys * (2 * kMaxHeadSize + kTileQueries) * sizeof(float);
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
