// Building blocks of kernels with one warp per row: how rows map to warps and tenants, and
// reductions over a warp.
//
// Model weights rotation (ITIF, Algorithm 3): one launch for the rows of all tenants, each row with
// its tenant's weights. In the thesis a thread compares its row with the index at which the next
// tenant begins. Here an array of the batch holds each row's slot, which is read once per row, for
// any row width.
#pragma once

#include "kernels/args.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/number.h"
#include "kernels/cuda/operators.h"

namespace itif::kernels::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;
inline constexpr uint32_t kRowsPerBlock = 4;  // one warp each

inline Grid grid_of_rows(uint32_t rows) {
  return {.blocks = dim3(div_up(rows, kRowsPerBlock)), .threads = dim3(kWarp, kRowsPerBlock)};
}
__device__ inline uint32_t my_row() {
  return blockIdx.x * kRowsPerBlock + threadIdx.y;
}

// Reduces over each kLanes neighbouring lanes. All lanes of the warp must call it.
template <uint32_t kLanes>
__device__ float lanes_sum(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}
template <uint32_t kLanes>
__device__ float lanes_max(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}
__device__ inline float warp_sum(float value) {
  return lanes_sum<kWarp>(value);
}
__device__ inline float warp_max(float value) {
  return lanes_max<kWarp>(value);
}

template <class T>
__device__ const T* slab_at(const Slab& slab, uint32_t slot) {
  return reinterpret_cast<const T*>(slab.at(slot));
}

// The kPacks of the next smaller kernel of with_row_of.
constexpr uint32_t packs_below(uint32_t packs) {
  return packs > 16 ? 16 : packs > 8 ? 8 : packs > 6 ? 6 : packs > 4 ? 4 : packs - 1;
}

// A warp's row in registers: lane l holds packs l, l + 32, … of kWidth values each, at most kPacks.
template <class T, uint32_t kWidth, uint32_t kPacks>
class WarpRow {
 public:
  __device__ explicit WarpRow(uint32_t width) : width_(width) {}

  // Another row, in memory; nullptr reads as zeros. If a lane's registers can hold it, the
  // constructor loads it, so that the loads of several rows are in flight together.
  template <class Of>
  class Read {
   public:
    __device__ Read(const WarpRow& shape, const Of* row) : row_(row) {
      if constexpr (kIsAhead)
        if (row != nullptr)
          shape.for_each_first(
              [&](uint32_t p, uint32_t first) { packs_[p] = values_at<kWidth>(row + first); });
    }
    __device__ Values<Of, kWidth> pack(uint32_t p, uint32_t first) const {
      if constexpr (kIsAhead) return packs_[p];
      return row_ == nullptr ? Values<Of, kWidth>{} : values_at<kWidth>(row_ + first);
    }

   private:
    static constexpr bool kIsAhead = kPacks * kWidth <= 32;
    const Of* const row_;
    Values<Of, kWidth> packs_[kIsAhead ? kPacks : 1] = {};
  };
  __device__ Read<T> read(const T* row) const { return Read<T>(*this, row); }
  __device__ Read<float> read_f32(const float* row) const { return Read<float>(*this, row); }

  // Calls body(p, first) for each of the lane's packs p, which begins at value `first` of the row.
  template <class Body>
  __device__ void for_each_first(const Body& body) const {
#pragma unroll kUnrolledPacks
    for (uint32_t p = 0; p < kPacks; ++p) {
      const uint32_t first = (threadIdx.x + p * kWarp) * kWidth;
      if (p + 1 <= kFullPacks || first < width_) body(p, first);
    }
  }
  // Calls body(value) for each of the lane's values.
  template <class Body>
  __device__ void for_each(const Body& body) {
    for_each_first([&](uint32_t p, uint32_t) {
#pragma unroll
      for (uint32_t i = 0; i < kWidth; ++i) body(values_[p][i]);
    });
  }
  template <class Of>
  __device__ void set(const Read<Of>& row) {
    for_each_first([&](uint32_t p, uint32_t first) {
      const Values<Of, kWidth> pack = row.pack(p, first);
#pragma unroll
      for (uint32_t i = 0; i < kWidth; ++i) values_[p][i] = to_float(pack.values[i]);
    });
  }
  template <class Of>
  __device__ void add(const Read<Of>& row) {
    for_each_first([&](uint32_t p, uint32_t first) {
      const Values<Of, kWidth> pack = row.pack(p, first);
#pragma unroll
      for (uint32_t i = 0; i < kWidth; ++i) values_[p][i] += to_float(pack.values[i]);
    });
  }
  __device__ void store(T* row) const {
    for_each_first([&](uint32_t p, uint32_t first) { store_at(row + first, rounded(p)); });
  }
  __device__ void scale(float by) {
    for_each([&](float& value) { value *= by; });
  }
  // Stores the row and keeps the rounded values.
  __device__ void store_rounded(T* row) {
    for_each_first([&](uint32_t p, uint32_t first) {
      const Values<T, kWidth> pack = rounded(p);
      store_at(row + first, pack);
#pragma unroll
      for (uint32_t i = 0; i < kWidth; ++i) values_[p][i] = to_float(pack.values[i]);
    });
  }
  // LayerNorm. Mean and variance take two passes over registers, which avoids cancellation.
  __device__ void normalize(const Read<float>& gamma, const Read<float>& beta, float epsilon) {
    const float share = 1.0f / static_cast<float>(width_);
    float sum = 0;
    for_each([&](float value) { sum += value; });
    const float mean = warp_sum(sum) * share;
    float squares = 0;
    for_each([&](float value) { squares += (value - mean) * (value - mean); });
    const float scale = rsqrtf(warp_sum(squares) * share + epsilon);
    for_each_first([&](uint32_t p, uint32_t first) {
      const Values<float, kWidth> by = gamma.pack(p, first), more = beta.pack(p, first);
#pragma unroll
      for (uint32_t i = 0; i < kWidth; ++i)
        values_[p][i] = (values_[p][i] - mean) * scale * by.values[i] + more.values[i];
    });
  }

 private:
  // Rows that registers cannot hold are looped over in local memory: unrolled, such kernels spill
  // as much and take minutes to compile.
  static constexpr uint32_t kUnrolledPacks = kPacks * kWidth <= 128 ? kPacks : 1;
  // Packs that every lane has; with_row_of() gives narrower rows to smaller kernels.
  static constexpr uint32_t kFullPacks = kWidth == 1 ? 0 : packs_below(kPacks);

  __device__ Values<T, kWidth> rounded(uint32_t p) const {
    Values<T, kWidth> pack;
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) pack.values[i] = from_float<T>(values_[p][i]);
    return pack;
  }

  const uint32_t width_;
  float values_[kPacks][kWidth];
};

// The widest row. A warp's registers hold 4,096 values; wider rows spill, but no model has them.
inline constexpr uint32_t kMaxRowWidth = 8192;

// Calls body.operator()<kWidth, kPacks>() with the widest packs that rows of `width` consist of,
// and the least number of them per lane. REQUIRES: width ≤ kMaxRowWidth, and rows are aligned to
// these packs.
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
