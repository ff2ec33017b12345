// Operators whose elements know nothing of one another: biases and activations by row, and conversions.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/rows.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;

// Columns by x, so that a row of any width is dealt to as many threads as it has packs.
template <class T, uint32_t kWidth>
__global__ void bias_activation_kernel(BiasActivation args, Rows rows) {
  struct alignas(kWidth * sizeof(T)) Part {
    T values[kWidth];
  };
  const uint32_t first = (blockIdx.x * kThreads + threadIdx.x) * kWidth;
  const uint32_t row = blockIdx.y;
  if (first >= args.width) return;
  auto* at = reinterpret_cast<Part*>(static_cast<T*>(args.x) + size_t{row} * args.width + first);
  const float* bias =
      args.bias.base == nullptr ? nullptr : slab_at<float>(args.bias, rows.slots[row]) + first;
  Part part = *at;
  for (uint32_t i = 0; i < kWidth; ++i) {
    const float x = to_float(part.values[i]) + (bias == nullptr ? 0.0f : bias[i]);
    part.values[i] = from_float<T>(activate(args.activation, x));
  }
  *at = part;
}

template <class T>
__global__ void to_f32_kernel(const T* x, float* out, size_t count) {
  const size_t step = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step)
    out[i] = to_float(x[i]);
}

}  // namespace

void bias_activation(const Launcher& launch, const BiasActivation& args, const Rows& rows) {
  with_activation(launch.activation(), [&]<class T>() {
    constexpr uint32_t kWide = Pack<T>::kWidth;
    const auto grid = [&](uint32_t width) {
      return Grid{.blocks = dim3(div_up(args.width, width * kThreads), rows.count),
                  .threads = dim3(kThreads)};
    };
    if (is_packed<T>(args.width))
      launch(grid(kWide), bias_activation_kernel<T, kWide>, args, rows);
    else
      launch(grid(1), bias_activation_kernel<T, 1>, args, rows);
  });
}

void to_f32(const Launcher& launch, const ToF32& args) {
  with_activation(launch.activation(), [&]<class T>() {
    const size_t blocks = (args.count + kThreads - 1) / kThreads;
    const auto most = size_t{8} * launch.num_multiprocessors();
    launch({.blocks = dim3(static_cast<uint32_t>(blocks < most ? blocks : most)),
            .threads = dim3(kThreads)},
           to_f32_kernel<T>, static_cast<const T*>(args.x), args.out, args.count);
  });
}

}  // namespace itif::kernels::cuda
