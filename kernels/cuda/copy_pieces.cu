// Gathers a batch's results into contiguous memory, for one copy to the host. Grid: x is the piece,
// y its blocks.
#include "kernels/cuda/operators.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kMaxThreads = 256, kMinThreads = 32;
constexpr uint32_t kMaxBlocks = 256;  // per piece
constexpr uint32_t kTogether = 4;     // loads in flight per thread

template <class Unit>
__device__ void copy_units(const CopyPiece& piece, std::byte* to) {
  const auto* from = static_cast<const Unit*>(piece.from);
  auto* target = reinterpret_cast<Unit*>(to + piece.at);
  const uint32_t count = piece.bytes / sizeof(Unit), step = gridDim.y * blockDim.x;
  for (uint32_t first = blockIdx.y * blockDim.x + threadIdx.x; first < count;
       first += kTogether * step) {
    Unit units[kTogether];
#pragma unroll
    for (uint32_t u = 0; u < kTogether; ++u)
      if (first + u * step < count) units[u] = __ldg(from + first + u * step);
#pragma unroll
    for (uint32_t u = 0; u < kTogether; ++u)
      if (first + u * step < count) target[first + u * step] = units[u];
  }
}

__global__ void __launch_bounds__(kMaxThreads)
    copy_pieces_kernel(const CopyPiece* pieces, std::byte* to) {
  const CopyPiece piece = pieces[blockIdx.x];
  const auto odd = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(piece.from) |
                                         reinterpret_cast<uintptr_t>(to + piece.at) | piece.bytes);
  if (odd % sizeof(uint4) == 0)
    copy_units<uint4>(piece, to);
  else if (odd % sizeof(uint32_t) == 0)
    copy_units<uint32_t>(piece, to);
  else
    copy_units<uint8_t>(piece, to);
}

}  // namespace

void copy_pieces(const Launcher& launch, const CopyPiece* pieces, uint32_t num_pieces,
                 uint32_t longest_bytes, std::byte* to) {
  const uint32_t packs = div_up(longest_bytes, sizeof(uint4));
  const uint32_t threads = packs <= kMinThreads ? kMinThreads : kMaxThreads;
  const uint32_t blocks = div_up(packs, threads);
  launch({.blocks = dim3(num_pieces, blocks < kMaxBlocks ? blocks : kMaxBlocks),
          .threads = dim3(threads)},
         copy_pieces_kernel, pieces, to);
}

}  // namespace itif::kernels::cuda
