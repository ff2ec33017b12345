// Attention of one query by one warp, over keys at any addresses.
#pragma once

#include "kernels/cuda/rows.h"

namespace itif::kernels::cuda {

inline constexpr uint32_t kTensorQueries = 64, kPlainQueries = 4;

// The softmax takes 32 scores at a time and is rescaled as larger ones appear. Lane l scores one
// key, then accumulates values l, l + 32, … of the head. KeyOf, ValueOf: map a key's number to its
// vector.
template <class T, uint32_t kPerLane, class KeyOf, class ValueOf>
__device__ void attend_row(const T* query, const KeyOf& key_of, const ValueOf& value_of,
                           uint32_t num_keys, uint32_t head_size, float scale, T* out) {
  const uint32_t lane = threadIdx.x;
  float sums[kPerLane] = {};
  float most = -INFINITY, total = 0;
  for (uint32_t first = 0; first < num_keys; first += kWarp) {
    float score = -INFINITY;
    if (first + lane < num_keys) {
      const T* key = key_of(first + lane);
      score = 0;
      for (uint32_t i = 0; i < head_size; ++i) score += to_float(query[i]) * to_float(key[i]);
      score *= scale;
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
        if (lane + i * kWarp < head_size) sums[i] += of_key * to_float(value[lane + i * kWarp]);
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
