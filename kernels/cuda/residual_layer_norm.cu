// Bias, residual and LayerNorm in one pass over memory, each row with its tenant's parameters.
#include "kernels/cuda/plan.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/thesis_rows.h"

namespace itif::kernels::cuda {
namespace {

template <class T, uint32_t kWidth, uint32_t kPacks>
__global__ void residual_layer_norm_kernel(ResidualLayerNorm args, Rows rows) {
  const uint32_t row = my_row();
  if (row >= rows.count) return;
  const uint32_t slot = rows.slots[row];
  const size_t first = size_t{row} * args.hidden;
  WarpRow<T, kWidth, kPacks> values(args.hidden);
  const auto x = values.read(static_cast<const T*>(args.x) + first);
  const auto residual = values.read(
      args.residual == nullptr ? nullptr : static_cast<const T*>(args.residual) + first);
  const auto bias =
      values.read_f32(args.bias.base == nullptr ? nullptr : slab_at<float>(args.bias, slot));
  const auto gamma = values.read_f32(slab_at<float>(args.gamma, slot));
  const auto beta = values.read_f32(slab_at<float>(args.beta, slot));
  values.set(x);
  values.add(bias);
  values.add(residual);
  // Normalise the sum as it is stored.
  if (args.sum != nullptr) values.store_rounded(static_cast<T*>(args.sum) + first);
  values.normalize(gamma, beta, args.epsilon);
  values.store(static_cast<T*>(args.out) + first);
}

}  // namespace

void run(const ResidualLayerNorm& args, Plan& plan) {
  const Rows rows = plan.rows(args.ranges);
  const Launcher& launch = plan.launcher(rows.count, rows.slots);
  if (args.has_thesis_grid) return thesis_layer_norm(launch, args, rows);
  with_activation(launch.activation(), [&]<class T>() {
    with_row_of<T>(args.hidden, [&]<uint32_t kWidth, uint32_t kPacks>() {
      launch(grid_of_rows(rows.count), residual_layer_norm_kernel<T, kWidth, kPacks>, args, rows);
    });
  });
}

}  // namespace itif::kernels::cuda
