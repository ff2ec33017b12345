// Elementwise operators: biases and activations by row, and conversions.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/thesis_rows.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 128;  // divides the packs per row of most models
constexpr uint32_t kManyRows = 4;   // per thread, if enough for all multiprocessors

// A thread handles the same columns of kRows rows. It loads all of them before it uses any, and
// loads a tenant's bias once for consecutive rows. Grid: x is the rows (the dimension with the
// largest limit), y the columns.
template <class T, uint32_t kWidth, uint32_t kRows, Activation kActivation>
__global__ void bias_activation_kernel(BiasActivation args, Rows rows) {
  const uint32_t column = (blockIdx.y * kThreads + threadIdx.x) * kWidth;
  if (column >= args.width) return;
  const uint32_t first = blockIdx.x * kRows;
  const uint32_t last = min(kRows, rows.count - first) - 1;
  const bool has_bias = args.bias.base != nullptr;
  T* x = static_cast<T*>(args.x) + size_t{first} * args.width + column;
  Values<T, kWidth> values[kRows] = {};
  uint32_t slots[kRows] = {};
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    const uint32_t row = min(r, last);
    values[r] = values_at<kWidth>(x + size_t{row} * args.width);
    if (has_bias) slots[r] = rows.slots[first + row];
  }
  Values<float, kWidth> bias = {};
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    if (r > last) break;
    if (has_bias && (r == 0 || slots[r] != slots[r - 1]))
      bias = values_at<kWidth>(slab_at<float>(args.bias, slots[r]) + column);
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i)
      values[r].values[i] = from_float<T>(
          activate_for<kActivation, T>(to_float(values[r].values[i]) + bias.values[i]));
    store_at(x + size_t{r} * args.width, values[r]);
  }
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
    with_kind(args.activation, [&]<Activation kActivation>() {
      const auto run = [&]<uint32_t kWidth, uint32_t kRows>() {
        launch({.blocks = dim3(div_up(rows.count, kRows), div_up(args.width, kWidth * kThreads)),
                .threads = dim3(kThreads)},
               bias_activation_kernel<T, kWidth, kRows, kActivation>, args, rows);
      };
      constexpr uint32_t kWide = Pack<T>::kWidth;
      const auto enough = size_t{launch.processors().count} * 1024 * kManyRows;
      if (!is_packed<T>(args.width))
        run.template operator()<1, 1>();
      else if (size_t{rows.count} * (args.width / kWide) < enough)
        run.template operator()<kWide, 1>();
      else
        run.template operator()<kWide, kManyRows>();
    });
  });
}

void run(const BiasActivation& args, Plan& plan) {
  const Rows rows = plan.rows(args.ranges);
  const Launcher& launch = plan.launcher(rows.count, rows.slots);
  args.has_thesis_grid ? thesis_bias_activation(launch, args, rows)
                       : bias_activation(launch, args, rows);
}

void run(const ToF32& args, Plan& plan) {
  const Launcher& launch = plan.launcher();
  with_activation(launch.activation(), [&]<class T>() {
    const size_t blocks = (args.count + kThreads - 1) / kThreads;
    const auto most = size_t{8} * launch.processors().count;
    launch({.blocks = dim3(static_cast<uint32_t>(blocks < most ? blocks : most)),
            .threads = dim3(kThreads)},
           to_f32_kernel<T>, static_cast<const T*>(args.x), args.out, args.count);
  });
}

}  // namespace itif::kernels::cuda
