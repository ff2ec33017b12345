// What decoders add: keys and values into and between the cache's blocks, and attention over them.
#include "kernels/cuda/attention_row.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kHeadsPerBlock = 4;  // a warp each

// A block a row; keys by y = 0, values by 1.
template <class T>
__global__ void append_kv_kernel(AppendKv args, const uint32_t* places) {
  const uint32_t row = blockIdx.x, is_value = blockIdx.y;
  const T* from = static_cast<const T*>(is_value ? args.value : args.key) + row * args.row_stride;
  T* to =
      reinterpret_cast<T*>(args.pool.base) + args.pool.offset(places[row], args.layer, is_value);
  for (uint32_t i = threadIdx.x; i < args.pool.hidden; i += kThreads) to[i] = from[i];
}

// A block a copy and a layer's keys or values.
template <class T>
__global__ void copy_kv_kernel(KvPool pool, const KvCopy* copies) {
  const KvCopy copy = copies[blockIdx.x];
  const uint32_t layer = blockIdx.y / 2, is_value = blockIdx.y % 2;
  T* base = reinterpret_cast<T*>(pool.base);
  const T* from = base + pool.offset(copy.from * pool.block_tokens, layer, is_value);
  T* to = base + pool.offset(copy.to * pool.block_tokens, layer, is_value);
  const size_t count = size_t{copy.num_tokens} * pool.hidden;
  for (size_t i = threadIdx.x; i < count; i += kThreads) to[i] = from[i];
}

template <class T>
struct CachedVectors {
  const T* base;  // of the head
  KvPool pool;
  const uint32_t* blocks;  // of the row
  uint32_t layer, is_value;
  __device__ const T* operator()(uint32_t token) const {
    const uint32_t place =
        blocks[token / pool.block_tokens] * pool.block_tokens + token % pool.block_tokens;
    return base + pool.offset(place, layer, is_value);
  }
};

template <class T, uint32_t kPerLane>
__global__ void cached_attention_kernel(CachedAttention args, const KvTable* tables,
                                        const uint32_t* blocks) {
  const uint32_t row = blockIdx.x, head = blockIdx.y * kHeadsPerBlock + threadIdx.y;
  if (head >= args.num_heads) return;
  const KvTable table = tables[row];
  const size_t shift = size_t{head} * args.head_size;
  const T* base = reinterpret_cast<const T*>(args.pool.base) + shift;
  attend_row<T, kPerLane>(
      static_cast<const T*>(args.query) + row * args.query_stride + shift,
      CachedVectors<T>{base, args.pool, blocks + table.first, args.layer, 0},
      CachedVectors<T>{base, args.pool, blocks + table.first, args.layer, 1}, table.num_tokens,
      args.head_size, args.scale,
      static_cast<T*>(args.out) + size_t{row} * args.num_heads * args.head_size + shift);
}

}  // namespace

void append_kv(const Launcher& launch, const AppendKv& args, const uint32_t* places,
               uint32_t num_rows) {
  with_activation(launch.activation(), [&]<class T>() {
    launch({.blocks = dim3(num_rows, 2), .threads = dim3(kThreads)}, append_kv_kernel<T>, args,
           places);
  });
}

void copy_kv(const Launcher& launch, const CopyKv& args, const KvCopy* copies,
             uint32_t num_copies) {
  with_activation(launch.activation(), [&]<class T>() {
    launch({.blocks = dim3(num_copies, 2 * args.pool.num_layers), .threads = dim3(kThreads)},
           copy_kv_kernel<T>, args.pool, copies);
  });
}

void cached_attention(const Launcher& launch, const CachedAttention& args, const KvTable* tables,
                      const uint32_t* blocks, uint32_t num_rows) {
  const Grid grid{.blocks = dim3(num_rows, div_up(args.num_heads, kHeadsPerBlock)),
                  .threads = dim3(kWarp, kHeadsPerBlock)};
  with_activation(launch.activation(), [&]<class T>() {
    with_values_per_lane(args.head_size, [&]<uint32_t kPerLane>() {
      launch(grid, cached_attention_kernel<T, kPerLane>, args, tables, blocks);
    });
  });
}

}  // namespace itif::kernels::cuda
