// Embeddings: sums of rows of each tenant's tables, by token, position and type, and the LayerNorm
// that follows.
#include "kernels/cuda/plan.h"
#include "kernels/cuda/rows.h"

namespace itif::kernels::cuda {
namespace {

// An id outside the vocabulary (-1) reads as 0.
__device__ uint32_t id_of(const int32_t* ids, uint32_t row) {
  return ids[row] < 0 ? 0u : static_cast<uint32_t>(ids[row]);
}

template <class T, uint32_t kWidth, uint32_t kPacks>
__global__ void embed_layer_norm_kernel(EmbedLayerNorm args, Rows rows, const uint32_t* positions,
                                        const uint8_t* token_types) {
  const uint32_t row = my_row();
  if (row >= rows.count) return;
  const uint32_t slot = rows.slots[row];
  const size_t width = args.hidden;
  WarpRow<T, kWidth, kPacks> values(args.hidden);
  const auto gamma = values.read_f32(slab_at<float>(args.gamma, slot));
  const auto beta = values.read_f32(slab_at<float>(args.beta, slot));
  const auto position = values.read(slab_at<T>(args.position, slot) + positions[row] * width);
  const auto type = values.read(args.token_type.base == nullptr
                                    ? nullptr
                                    : slab_at<T>(args.token_type, slot) +
                                          (token_types == nullptr ? 0u : token_types[row]) * width);
  const auto word = values.read(slab_at<T>(args.word, slot) + id_of(args.ids, row) * width);
  values.set(word);
  values.add(position);
  values.add(type);
  values.normalize(gamma, beta, args.epsilon);
  values.store(static_cast<T*>(args.out) + row * width);
}

template <class T, uint32_t kWidth, uint32_t kPacks>
__global__ void embed_positions_kernel(EmbedPositions args, Rows rows, const uint32_t* positions) {
  const uint32_t row = my_row();
  if (row >= rows.count) return;
  const size_t width = args.hidden;
  WarpRow<T, kWidth, kPacks> values(args.hidden);
  const auto position = values.read_f32(args.position + positions[row] * width);
  values.set(values.read(slab_at<T>(args.word, rows.slots[row]) + id_of(args.ids, row) * width));
  values.scale(args.scale);
  values.add(position);
  values.store(static_cast<T*>(args.out) + row * width);
}

}  // namespace

void run(const EmbedLayerNorm& args, Plan& plan) {
  const Rows rows = plan.rows(args.ranges);
  const uint32_t* positions = plan.put(args.positions);
  const uint8_t* token_types = plan.put(args.token_types);
  const Launcher& launch = plan.launcher(rows.count, rows.slots, positions, token_types);
  with_activation(launch.activation(), [&]<class T>() {
    with_row_of<T>(args.hidden, [&]<uint32_t kWidth, uint32_t kPacks>() {
      launch(grid_of_rows(rows.count), embed_layer_norm_kernel<T, kWidth, kPacks>, args, rows,
             positions, token_types);
    });
  });
}

void run(const EmbedPositions& args, Plan& plan) {
  const Rows rows = plan.rows(args.ranges);
  const uint32_t* positions = plan.put(args.positions);
  const Launcher& launch = plan.launcher(rows.count, rows.slots, positions);
  with_activation(launch.activation(), [&]<class T>() {
    with_row_of<T>(args.hidden, [&]<uint32_t kWidth, uint32_t kPacks>() {
      launch(grid_of_rows(rows.count), embed_positions_kernel<T, kWidth, kPacks>, args, rows,
             positions);
    });
  });
}

}  // namespace itif::kernels::cuda
