// Attention of one query by one warp, over keys at any addresses.
#pragma once

#include <type_traits>

#include "kernels/cuda/rows.h"

namespace itif::kernels::cuda {

inline constexpr uint32_t kTensorQueries = 64, kPlainQueries = 4;

__device__ inline bool has(const KeyRange& keys, uint32_t key) {
  return key >= keys.begin && key < keys.end;
}
// The first maximum of a masked row. A masked score is −∞, and ∞ − ∞ would be NaN while all scores
// so far are masked.
inline constexpr float kLowestScore = -1e30f;

// Returns the value, or the largest number in place of an infinity or NaN. A masked weight is 0,
// and 0 · ∞ would carry one request's overflow into others of its score matrix.
template <class T>
__device__ T finite(T value) {
  constexpr float kMaxFinite = 3.40282347e+38f;
  if (fabsf(to_float(value)) <= kMaxFinite) return value;
  if constexpr (std::is_same_v<T, float>) return kMaxFinite;
  return from_float<T>(std::is_same_v<T, Half> ? 65504.0f : 3.38953139e+38f);
}

// The softmax takes 32 scores at a time and is rescaled as larger ones appear. Lane l scores one
// key, then accumulates values l, l + 32, … of the head. KeyOf, ValueOf: map a key's number to its
// vector. With kIsMasked, scores of keys outside `allowed` are masked.
template <class T, uint32_t kPerLane, bool kIsMasked = false, class KeyOf, class ValueOf>
__device__ void attend_row(const T* query, const KeyOf& key_of, const ValueOf& value_of,
                           uint32_t num_keys, uint32_t head_size, float scale, T* out,
                           KeyRange allowed = {}) {
  const uint32_t lane = threadIdx.x;
  float sums[kPerLane] = {};
  float most = kIsMasked ? kLowestScore : -INFINITY, total = 0;
  for (uint32_t first = 0; first < num_keys; first += kWarp) {
    float score = -INFINITY;
    if (first + lane < num_keys) {
      const T* key = key_of(first + lane);
      score = 0;
      for (uint32_t i = 0; i < head_size; ++i) score += to_float(query[i]) * to_float(key[i]);
      score *= scale;
      if (kIsMasked && !has(allowed, first + lane)) score = -INFINITY;
    }
    const float largest = fmaxf(most, warp_max(score));
    const float correction = expf(most - largest), weight = expf(score - largest);
    most = largest;
    total = total * correction + warp_sum(weight);
    for (uint32_t i = 0; i < kPerLane; ++i) sums[i] *= correction;
    const uint32_t here = min(kWarp, num_keys - first);
    for (uint32_t k = 0; k < here; ++k) {
      const float of_key = __shfl_sync(kAllLanes, weight, static_cast<int>(k));
      const T* value = value_of(first + k);
      for (uint32_t i = 0; i < kPerLane; ++i)
        if (lane + i * kWarp < head_size) {
          const T of_value = value[lane + i * kWarp];
          sums[i] += of_key * to_float(kIsMasked ? finite(of_value) : of_value);
        }
    }
  }
  for (uint32_t i = 0; i < kPerLane; ++i)
    if (lane + i * kWarp < head_size) out[lane + i * kWarp] = from_float<T>(sums[i] / total);
}

// Calls body.operator()<kPerLane>() with the values of a head per lane. REQUIRES: ≤ kMaxHeadSize.
template <class Body>
void with_values_per_lane(uint32_t head_size, const Body& body) {
  static_assert(kMaxHeadSize == 8 * kWarp);
  if (head_size <= kWarp) return body.template operator()<1>();
  if (head_size <= 2 * kWarp) return body.template operator()<2>();
  if (head_size <= 4 * kWarp) return body.template operator()<4>();
  return body.template operator()<8>();
}

}  // namespace itif::kernels::cuda
