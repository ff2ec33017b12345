// Bias, residual and LayerNorm in one pass over memory, each row with its tenant's bias, gamma and beta.
#include "kernels/cuda/rows.h"

namespace itif::kernels::cuda {
namespace {

template <class T, uint32_t kWidth, uint32_t kPacks>
__global__ void residual_layer_norm_kernel(ResidualLayerNorm args, Rows rows) {
  const uint32_t row = my_row();
  if (row >= rows.count) return;
  const uint32_t slot = rows.slots[row];
  const size_t first = size_t{row} * args.hidden;
  WarpRow<T, kWidth, kPacks> values(args.hidden);
  values.load(static_cast<const T*>(args.x) + first);
  if (args.bias.base != nullptr) values.add_f32(slab_at<float>(args.bias, slot));
  if (args.residual != nullptr) values.add(static_cast<const T*>(args.residual) + first);
  if (args.sum != nullptr) {
    values.round();  // the norm is that of the sum as it is stored
    values.store(static_cast<T*>(args.sum) + first);
  }
  values.normalize(slab_at<float>(args.gamma, slot), slab_at<float>(args.beta, slot), args.epsilon);
  values.store(static_cast<T*>(args.out) + first);
}

}  // namespace

void residual_layer_norm(const Launcher& launch, const ResidualLayerNorm& args, const Rows& rows) {
  with_activation(launch.activation(), [&]<class T>() {
    with_row_of<T>(args.hidden, [&]<uint32_t kWidth, uint32_t kPacks>() {
      launch(grid_of_rows(rows.count), residual_layer_norm_kernel<T, kWidth, kPacks>, args, rows);
    });
  });
}

}  // namespace itif::kernels::cuda
