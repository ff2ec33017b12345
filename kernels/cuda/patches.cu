// Images: pixels straight from packets in host memory to rows of patches, normalised on the way, and class tokens
// and positions added to their embeddings.
//
// The bus is read in 16-byte packs, each once: a block takes a band of an image (rows of one row of patches) and
// brings the bytes of each pixel row to shared memory, then spreads them over the patches. Pieces begin and end at
// any address; the bytes ahead of the first whole pack of a piece, and behind the last, are read one by one, and
// nothing outside a piece is.
#include "kernels/cuda/in_place.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/shared_memory.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;

// Brings bytes [begin, begin + bytes) of an image's message.
__device__ void bring_bytes(const PixelPiece* pieces, uint32_t num_pieces, uint32_t begin,
                            uint32_t bytes, uint8_t* to) {
  const uint32_t end = begin + bytes;
  for (uint32_t p = 0; p < num_pieces; ++p) {
    const PixelPiece piece = pieces[p];
    const uint32_t first = max(begin, piece.begin), last = min(end, piece.begin + piece.bytes);
    if (first >= last) continue;
    const auto* from = in_place<uint8_t>(piece.data, piece.bytes) + (first - piece.begin);
    uint8_t* target = to + (first - begin);
    const uint32_t count = last - first;
    const auto misaligned = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 16);
    const uint32_t head = min(count, misaligned == 0 ? 0 : 16 - misaligned);
    const uint32_t packs = (count - head) / 16;
    for (uint32_t i = threadIdx.x; i < head; i += kThreads) target[i] = from[i];
    for (uint32_t i = threadIdx.x; i < packs; i += kThreads) {
      union {
        uint4 pack;
        uint8_t values[16];
      } read;
      read.pack = reinterpret_cast<const uint4*>(from + head)[i];
      for (uint32_t b = 0; b < 16; ++b) target[head + i * 16 + b] = read.values[b];
    }
    for (uint32_t i = head + packs * 16 + threadIdx.x; i < count; i += kThreads)
      target[i] = from[i];
  }
}

__device__ float value_at(const uint8_t* row, uint32_t i, uint32_t value_bytes) {
  return value_bytes == 1 ? static_cast<float>(row[i]) : reinterpret_cast<const float*>(row)[i];
}

template <class T>
__global__ void gather_patches_kernel(GatherPatches args, const PixelImage* images,
                                      const PixelPiece* pieces, const float* scales) {
  SharedMemory shared;
  uint8_t* row = shared.take<uint8_t>(args.width * args.channels * sizeof(float));
  const PixelImage image = images[blockIdx.y];
  if (image.num_pieces == 0) return;
  const uint32_t band = blockIdx.x, patch = args.patch, channels = args.channels;
  const uint32_t across = args.width / patch;
  const uint32_t row_values = args.width * channels, used_values = across * patch * channels;
  const bool is_scaled = image.first_scale != ~0u;
  const float* scale = is_scaled ? scales + image.first_scale : nullptr;
  const size_t plane = size_t{patch} * patch;
  for (uint32_t y = 0; y < patch; ++y) {
    const uint32_t begin = image.skip_bytes + (band * patch + y) * row_values * image.value_bytes;
    bring_bytes(pieces + image.first_piece, image.num_pieces, begin,
                used_values * image.value_bytes, row);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < used_values; i += kThreads) {
      const uint32_t pixel = i / channels, channel = i % channels;
      const uint32_t x = pixel / patch, within = pixel % patch;
      float value = value_at(row, i, image.value_bytes);
      if (is_scaled) value = __fmaf_rn(value, scale[channel], scale[channels + channel]);
      const size_t out_row = size_t{image.first_row} + band * across + x;
      static_cast<T*>(args.out)[(out_row * channels + channel) * plane + y * patch + within] =
          from_float<T>(value);
    }
    __syncthreads();
  }
}

template <class T, uint32_t kWidth, uint32_t kPacks>
__global__ void embed_patches_kernel(EmbedPatches args, Rows rows, const int32_t* index_of_row) {
  const uint32_t row = my_row();
  if (row >= rows.count || index_of_row[row] < 0) return;
  const uint32_t slot = rows.slots[row], index = static_cast<uint32_t>(index_of_row[row]);
  T* x = static_cast<T*>(args.x) + size_t{row} * args.hidden;
  WarpRow<T, kWidth, kPacks> values(args.hidden);
  values.load(slab_at<T>(args.position, slot) + size_t{index} * args.hidden);
  if (index == 0)
    values.add_f32(slab_at<float>(args.class_token, slot));
  else
    values.add(x);
  values.store(x);
}

}  // namespace

void gather_patches(const Launcher& launch, const GatherPatches& args, const PixelImage* images,
                    uint32_t num_images, const PixelPiece* pieces, const float* scales) {
  const size_t bytes = shared_bytes<uint8_t>(size_t{args.width} * args.channels * sizeof(float));
  const Grid grid{.blocks = dim3(args.height / args.patch, num_images),
                  .threads = dim3(kThreads),
                  .shared_bytes = bytes};
  with_activation(launch.activation(), [&]<class T>() {
    if (bytes > kSharedUnlessAllowed) {
      int most = 0;
      launch.keep(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
      launch.keep(cudaFuncSetAttribute(gather_patches_kernel<T>,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, most));
    }
    launch(grid, gather_patches_kernel<T>, args, images, pieces, scales);
  });
}

void embed_patches(const Launcher& launch, const EmbedPatches& args, const Rows& rows,
                   const int32_t* index_of_row) {
  with_activation(launch.activation(), [&]<class T>() {
    with_row_of<T>(args.hidden, [&]<uint32_t kWidth, uint32_t kPacks>() {
      launch(grid_of_rows(rows.count), embed_patches_kernel<T, kWidth, kPacks>, args, rows,
             index_of_row);
    });
  });
}

}  // namespace itif::kernels::cuda
