// Kernels that give each row to a warp: how rows find their warp and their tenant, and a warp's sums.
//
// Model weights rotation (ITIF, Algorithm 3): one launch for the rows of all tenants, each row meeting its own
// tenant's weights. The thesis's threads compare their row with the index at which the next tenant begins; here
// a row's slot stands in an array that the batch brings along, and is read once a row, whatever the row's width.
#pragma once

#include "kernels/args.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/number.h"
#include "kernels/cuda/operators.h"

namespace itif::kernels::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;
inline constexpr uint32_t kRowsPerBlock = 4;  // a warp each

inline Grid grid_of_rows(uint32_t rows) {
  return {.blocks = dim3(div_up(rows, kRowsPerBlock)), .threads = dim3(kWarp, kRowsPerBlock)};
}
__device__ inline uint32_t my_row() {
  return blockIdx.x * kRowsPerBlock + threadIdx.y;
}

__device__ inline float warp_sum(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}
__device__ inline float warp_max(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

template <class T>
__device__ const T* slab_at(const Slab& slab, uint32_t slot) {
  return reinterpret_cast<const T*>(slab.at(slot));
}

// A warp's row in registers: lane l has packs l, l + 32, … of kWidth values each. kPacks: of a lane, at most.
template <class T, uint32_t kWidth, uint32_t kPacks>
class WarpRow {
 public:
  struct alignas(kWidth * sizeof(T)) Part {
    T values[kWidth];
  };

  __device__ explicit WarpRow(uint32_t width) : width_(width) {}

  // body(first, values): values[0, kWidth) are those of the row from `first` on.
  template <class Body>
  __device__ void for_each_pack(const Body& body) {
#pragma unroll
    for (uint32_t p = 0; p < kPacks; ++p) {
      const uint32_t first = (threadIdx.x + p * kWarp) * kWidth;
      if (first < width_) body(first, values_[p]);
    }
  }
  __device__ void load(const T* row) {
    for_each_pack([&](uint32_t first, float* values) {
      const Part part = *reinterpret_cast<const Part*>(row + first);
      for (uint32_t i = 0; i < kWidth; ++i) values[i] = to_float(part.values[i]);
    });
  }
  __device__ void add(const T* row) {
    for_each_pack([&](uint32_t first, float* values) {
      const Part part = *reinterpret_cast<const Part*>(row + first);
      for (uint32_t i = 0; i < kWidth; ++i) values[i] += to_float(part.values[i]);
    });
  }
  __device__ void add_f32(const float* row) {
    for_each_pack([&](uint32_t first, float* values) {
      for (uint32_t i = 0; i < kWidth; ++i) values[i] += row[first + i];
    });
  }
  __device__ void store(T* row) {
    for_each_pack([&](uint32_t first, const float* values) {
      Part part;
      for (uint32_t i = 0; i < kWidth; ++i) part.values[i] = from_float<T>(values[i]);
      *reinterpret_cast<Part*>(row + first) = part;
    });
  }
  __device__ void scale(float by) {
    for_each_pack([&](uint32_t, float* values) {
      for (uint32_t i = 0; i < kWidth; ++i) values[i] *= by;
    });
  }
  // To what the type can hold.
  __device__ void round() {
    for_each_pack([&](uint32_t, float* values) {
      for (uint32_t i = 0; i < kWidth; ++i) values[i] = to_float(from_float<T>(values[i]));
    });
  }
  // LayerNorm. Mean and variance in two passes over registers: no cancellation, whatever the mean.
  __device__ void normalize(const float* gamma, const float* beta, float epsilon) {
    float sum = 0;
    for_each_pack([&](uint32_t, const float* values) {
      for (uint32_t i = 0; i < kWidth; ++i) sum += values[i];
    });
    const float mean = warp_sum(sum) / static_cast<float>(width_);
    float squares = 0;
    for_each_pack([&](uint32_t, const float* values) {
      for (uint32_t i = 0; i < kWidth; ++i) squares += (values[i] - mean) * (values[i] - mean);
    });
    const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(width_) + epsilon);
    for_each_pack([&](uint32_t first, float* values) {
      for (uint32_t i = 0; i < kWidth; ++i)
        values[i] = (values[i] - mean) * scale * gamma[first + i] + beta[first + i];
    });
  }

 private:
  const uint32_t width_;
  float values_[kPacks][kWidth];
};

// The widest row. A warp's registers hold 4,096 values; wider rows spill, but no model has them.
inline constexpr uint32_t kMaxRowWidth = 8192;

// Calls body.operator()<kWidth, kPacks>() with the widest packs that rows of `width` consist of, and the least
// number of them a lane. REQUIRES: width ≤ kMaxRowWidth, and rows begin where packs may.
template <class T, class Body>
void with_row_of(uint32_t width, const Body& body) {
  constexpr uint32_t kWide = Pack<T>::kWidth;
  if (width % kWide != 0) return body.template operator()<1, kMaxRowWidth / kWarp>();
  const uint32_t packs = div_up(width / kWide, kWarp);
  if (packs <= 1) return body.template operator()<kWide, 1>();
  if (packs <= 2) return body.template operator()<kWide, 2>();
  if (packs <= 3) return body.template operator()<kWide, 3>();  // 768 in 16 bits
  if (packs <= 4) return body.template operator()<kWide, 4>();
  if (packs <= 6) return body.template operator()<kWide, 6>();
  if (packs <= 8) return body.template operator()<kWide, 8>();
  if (packs <= 16) return body.template operator()<kWide, 16>();
  return body.template operator()<kWide, kMaxRowWidth / kWide / kWarp>();
}

}  // namespace itif::kernels::cuda
